"""Each report says what a slow, plain computation over the same rows says: no SQL in it, and nothing shared with it.

Here those of sessions, questions and users.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from store.analytics.reporting import REPORTS
from tests.support.report_reference import (
    Ask,
    begins,
    chosen,
    grouped,
    is_finished,
    is_given_up,
    mean,
    path,
    periods,
    quantile,
    reached_at,
    report,
    same,
    says_of,
    share,
    within,
)  # fmt: skip

ALL: Mapping[str, str] = {}
OF_INTAKE = {"script": "intake"}
LATER = {"script": "intake", "version": "2", "since": "2025-03-11", "until": "2025-04-02T12:00:00Z"}
CHOICES = pytest.mark.parametrize("given", [ALL, OF_INTAKE, LATER], ids=["all", "a script", "a version, a time"])


MILESTONES = pytest.mark.parametrize("milestone", [ALL, {"milestone": "ask_1"}, {"milestone": "hello"}], ids=str)
Step = tuple[str, ...]


def milestone_in(model: Any, milestone: Mapping[str, str]) -> Mapping[str, str]:
    """Return the same kind of milestone in the scripts of a record."""
    there = {"ask_1": "ask_name", "hello": "hello"}
    return milestone if model.file is None else {name: there[value] for name, value in milestone.items()}


def rows_of(model: Any, level: str) -> list[tuple[SimpleNamespace, Step]]:
    """Return visits of steps of a level in their order, without those in skills and the like, each with its step."""
    if level == "action":
        rows = [each for each in model.action_visits if not (each.skill or each.interrupt or each.detector)]
    else:
        rows = [each for each in model.scope_visits if each.scope == level]
    rows.sort(key=lambda each: each.seq)
    parts = [(each.phase_id, each.topic_id, getattr(each, "action_id", None)) for each in rows]
    return [(row, tuple(x for x in part if x is not None)) for row, part in zip(rows, parts, strict=True)]


def steps_before(rows: list[tuple[SimpleNamespace, Step]], sessions: Any, steps: list[Step]) -> dict[Step, set[Step]]:
    """Return by step the earlier steps from which a session went straight to it."""
    found: dict[Step, set[Step]] = defaultdict(set)
    latest: dict[Any, Step] = {}
    for row, step in rows:
        if row.session_id in sessions and row.outcome != "skipped":
            earlier = latest.get(row.session_id)
            if earlier in steps and step in steps and steps.index(earlier) < steps.index(step):
                found[step].add(earlier)
            latest[row.session_id] = step
    return found


# -- how far sessions come ------------------------------------------------------------------------------------------


@pytest.mark.gate
@pytest.mark.parametrize("level", ["phase", "topic", "action"])
@pytest.mark.parametrize("given", [OF_INTAKE, LATER], ids=["a script", "a version, a time"])
@MILESTONES
def test_a_funnel_counts_how_far_sessions_come(
    model: Any, asked: Ask, given: Mapping[str, str], level: str, milestone: Mapping[str, str]
) -> None:
    milestone = milestone_in(model, milestone)
    depth = {"phase": 1, "topic": 2, "action": 3}[level]
    newest: dict[tuple[str, ...], tuple[int, int, str]] = {}
    versions = {each.digest: each.version for each in model.scripts}
    for row in model.script_actions:
        version = versions[row.digest]
        if row.script_id == "intake" and row.phase_position and given.get("version") in {None, str(version)}:
            step = (row.phase_id, row.topic_id, row.action_id)[:depth]
            if step not in newest or newest[step][0] < version:
                newest[step] = (version, row.position, row.action_type)
    sessions = {each.session_id: each for each in chosen(model, given)}
    reached, skipped, stopped = (defaultdict(set) for _ in range(3))
    latest: dict[Any, tuple[int, tuple[str, ...]]] = {}
    for row, step in rows_of(model, level):
        if row.session_id not in sessions:
            continue
        (skipped if row.outcome == "skipped" else reached)[step].add(row.session_id)
        if row.outcome == "open" and sessions[row.session_id].status != "completed":
            latest[row.session_id] = max(latest.get(row.session_id, (0, ())), (row.seq, step))
    for session_id, (_, step) in latest.items():
        stopped[step].add(session_id)
    others = sorted((reached.keys() | skipped.keys()) - newest.keys())
    steps = [*sorted(newest, key=lambda step: (newest[step][1], step)), *others]
    before = steps_before(rows_of(model, level), sessions.keys(), [step for step in steps if step in newest])
    converted = reached_at(model, milestone.get("milestone"))
    reckoned = []
    for number, step in enumerate(steps, 1):
        could = set().union(*(reached[each] for each in before[step]))
        done = len(reached[step] & converted.keys())
        reckoned.append(
            {
                "position": number if step in newest else None,
                "step": path(*step),
                "action_type": newest[step][2] if step in newest and level == "action" else None,
                "reached": len(reached[step]),
                "skipped": len(skipped[step] - reached[step]),
                "stopped": len(stopped[step]),
                "previous": len(could) or None,
                "share_of_started": share(len(reached[step]), len(sessions)),
                "share_of_previous": share(len(reached[step] & could), len(could)),
                "converted": done,
                "conversion_rate": share(done, len(reached[step])),
            }
        )
    found = report(asked, "funnel", {**given, **milestone, "level": level})
    assert all(0 <= (row["share_of_previous"] or 0) <= 1 for row in found)
    assert [row["step"] for row in found] == [row["step"] for row in reckoned]
    same(found, reckoned)


@CHOICES
@pytest.mark.parametrize(("level", "days"), [("phase", 7), ("action", 2.5)])
def test_drop_off_counts_where_sessions_are_given_up(
    model: Any, asked: Ask, given: Mapping[str, str], level: str, days: float
) -> None:
    depth = {"phase": 1, "action": 3}[level]
    reckoned = []
    for (script,), started in grouped(chosen(model, given), "script_id"):
        lost = [each for each in started if is_given_up(model, each, days)]
        places = Counter((each.phase_id, each.topic_id, each.action_id)[:depth] for each in lost)
        for place, count in places.items():
            reckoned.append(
                {
                    "script_id": script,
                    "step": path(*place),
                    "sessions": count,
                    "share_of_started": count / len(started),
                    "share_of_dropped": count / len(lost),
                    "says": says_of(model, script, *place),
                }
            )
    same(report(asked, "drop_off", {**given, "level": level, "idle_days": str(days)}), reckoned)


@pytest.mark.gate
@CHOICES
@MILESTONES
def test_completion_tells_what_became_of_sessions(
    model: Any, asked: Ask, given: Mapping[str, str], milestone: Mapping[str, str]
) -> None:
    reckoned = []
    milestone = milestone_in(model, milestone)
    there = reached_at(model, milestone.get("milestone"))
    for (script, version), started in grouped(chosen(model, given), "script_id", "first_version"):
        count = Counter(each.status for each in started)
        lost = sum(is_given_up(model, each) for each in started)
        reckoned.append(
            {
                "script_id": script,
                "script_version": version,
                "started": len(started),
                "completed": count["completed"],
                "finished": sum(map(is_finished, started)),
                "ended_by_action": sum(each.ended_by == "end_action" for each in started),
                "ended_by_user": sum(each.ended_by == "user" for each in started),
                "ended_by_application": sum(each.ended_by == "application" for each in started),
                "ended_by_rounds": sum(each.ended_by == "rounds" for each in started),
                "ended_by_expiry": sum(each.ended_by == "expired" for each in started),
                "reached": sum(each.session_id in there for each in started),
                "abandoned": lost,
                "going_on": count["active"] - lost,
                "paused": count["paused"],
                "failed": count["failed"],
                "silent": sum(each.user_messages == 0 for each in started),
                "completion_rate": sum(each.session_id in there for each in started) / len(started),
                "abandonment_rate": lost / len(started),
            }
        )
    same(report(asked, "completion", {**given, **milestone}), reckoned)


@CHOICES
def test_outcomes_are_those_of_completed_sessions(model: Any, asked: Ask, given: Mapping[str, str]) -> None:
    reckoned = []
    done = [each for each in chosen(model, given) if each.status == "completed"]
    for (script, version), rows in grouped(done, "script_id", "first_version"):
        counts = Counter(each.outcome for each in rows)
        for outcome in sorted(counts, key=lambda each: (-counts[each], each or "~")):
            ended = [each for each in rows if each.outcome == outcome]
            seconds = [(each.completed_at - each.created_at).total_seconds() for each in ended]
            reckoned.append(
                {
                    "script_id": script,
                    "script_version": version,
                    "outcome": outcome,
                    "sessions": len(seconds),
                    "share": len(seconds) / len(rows),
                    "median_seconds": quantile(seconds, 0.5),
                }
            )
    same(report(asked, "outcomes", given), reckoned)


@pytest.mark.gate
@CHOICES
@MILESTONES
def test_time_to_complete_is_that_to_the_end_or_a_milestone(
    model: Any, asked: Ask, given: Mapping[str, str], milestone: Mapping[str, str]
) -> None:
    reckoned = []
    milestone = milestone_in(model, milestone)
    there = reached_at(model, milestone.get("milestone"))
    done = [each for each in chosen(model, given) if each.session_id in there]
    replies = Counter(
        each.session_id
        for each in model.messages
        if each.role == "user" and each.session_id in there and each.turn <= there[each.session_id][1]
    )
    for (script, version), rows in grouped(done, "script_id", "first_version"):
        seconds = [(there[each.session_id][0] - each.created_at).total_seconds() for each in rows]
        reckoned.append(
            {
                "script_id": script,
                "script_version": version,
                "completed": len(rows),
                "p50_seconds": quantile(seconds, 0.5),
                "p90_seconds": quantile(seconds, 0.9),
                "p95_seconds": quantile(seconds, 0.95),
                "mean_seconds": mean(seconds),
                "median_turns": quantile([there[each.session_id][1] for each in rows], 0.5),
                "median_replies": quantile([replies[each.session_id] for each in rows], 0.5),
            }
        )
    same(report(asked, "time_to_complete", {**given, **milestone}), reckoned)


@CHOICES
def test_next_steps_follow_one_another(model: Any, asked: Ask, given: Mapping[str, str]) -> None:
    given = {**given, "script": "intake"}
    moves = []
    for session in chosen(model, given):
        visits = sorted(
            (each.seq, path(each.phase_id, each.topic_id))
            for each in model.scope_visits
            if each.session_id == session.session_id and each.scope == "topic" and each.outcome != "skipped"
        )
        ends = "completed" if session.status == "completed" else "stands"
        if session.status == "completed" and not is_finished(session):
            ends = "ended by " + session.ended_by.replace("_", " ").replace("expired", "expiry")
        steps = [step for _, step in visits]
        moves += [(step, after, session.session_id) for step, after in zip(steps, [*steps[1:], ends], strict=False)]
    times = Counter((step, after) for step, after, _ in moves)
    same(
        report(asked, "next_steps", given),
        [
            {
                "step": step,
                "next_step": after,
                "times": count,
                "sessions": len({move[2] for move in moves if move[:2] == (step, after)}),
                "share": count / sum(other for (each, _), other in times.items() if each == step),
            }
            for (step, after), count in times.items()
        ],
    )


# -- questions ------------------------------------------------------------------------------------------------------


def waits_of(model: Any, given: Mapping[str, str]) -> list[SimpleNamespace]:
    known = {each.session_id for each in chosen(model, given)}
    return [each for each in model.waits if each.session_id in known]


@CHOICES
def test_time_to_answer_is_that_of_waits_that_got_a_reply(model: Any, asked: Ask, given: Mapping[str, str]) -> None:
    reckoned = []
    for (script, *place, kind), rows in grouped(
        waits_of(model, given), "script_id", "phase_id", "topic_id", "action_id", "kind"
    ):
        if kind == "time":
            continue
        seconds = [each.seconds for each in rows if each.outcome == "answered"]
        reckoned.append(
            {
                "script_id": script,
                "step": path(*place),
                "kind": kind,
                "waits": len(rows),
                "answered": len(seconds),
                "still_open": sum(each.outcome == "open" for each in rows),
                "answered_share": len(seconds) / len(rows),
                "p50_seconds": quantile(seconds, 0.5),
                "p90_seconds": quantile(seconds, 0.9),
                "p95_seconds": quantile(seconds, 0.95),
                "mean_seconds": mean(seconds),
            }
        )
    same(report(asked, "time_to_answer", given), reckoned)


@CHOICES
def test_re_asked_counts_questions_that_were_asked_again(model: Any, asked: Ask, given: Mapping[str, str]) -> None:
    reckoned = []
    for (script, *place, kind), rows in grouped(
        waits_of(model, given), "script_id", "phase_id", "topic_id", "action_id", "action_type"
    ):
        if kind not in {"ask", "ai_ask", "choose", "form"}:
            continue
        visits, again = (sum(each.round == number for each in rows) for number in (1, 2))
        reckoned.append(
            {
                "script_id": script,
                "step": path(*place),
                "action_type": kind,
                "visits": visits,
                "asked_again": again,
                "share": again / visits,
                "mean_rounds": len(rows) / visits,
                "most_rounds": max(each.round for each in rows),
                "says": says_of(model, script, *place),
            }
        )
    same(report(asked, "re_asked", given), reckoned)


@CHOICES
def test_slots_tell_how_well_questions_fill_their_variables(model: Any, asked: Ask, given: Mapping[str, str]) -> None:
    sessions = {each.session_id for each in chosen(model, given)}
    visits = [
        SimpleNamespace(**vars(each), within=each.skill or each.interrupt or each.detector)
        for each in model.action_visits
        if each.session_id in sessions
        and each.outcome != "skipped"
        and each.action_type in {"ask", "ai_ask", "choose", "form", "chat"}
    ]
    reckoned = []
    for (script, phase, topic, within_it, action), rows in grouped(
        visits, "script_id", "phase_id", "topic_id", "within", "action_id"
    ):
        filled = defaultdict(set)
        for visit in rows:
            for write in model.variable_history:
                after = visit.left_seq is None or write.seq < visit.left_seq
                there = write.session_id == visit.session_id and write.action_id == action and write.seq > visit.seq
                if there and after and write.source in {"user", "model"} and write.type != "null":
                    filled[write.scope, write.name].add(visit.session_id)
        for (scope, name), who in filled.items():
            reckoned.append(
                {
                    "script_id": script,
                    "scope": scope,
                    "name": name,
                    "step": path(phase, topic, within_it, action),
                    "asked": len({each.session_id for each in rows}),
                    "filled": len(who),
                    "share": len(who) / len({each.session_id for each in rows}),
                    "rounds": mean(each.rounds for each in rows if each.rounds > 0),
                    "asked_again": sum(each.rounds > 1 for each in rows),
                }
            )
    assert reckoned or given == LATER
    same(report(asked, "slots", given), reckoned)


# -- users and time -------------------------------------------------------------------------------------------------

TIMES = pytest.mark.parametrize(
    ("period", "zone"), [("day", "UTC"), ("week", "Asia/Shanghai"), ("month", "America/New_York")]
)


def firsts_of(model: Any, script: str | None) -> dict[str, datetime]:
    first: dict[str, datetime] = {}
    for each in chosen(model, {"script": script} if script else {}):
        first[each.user_id] = min(first.get(each.user_id, each.created_at), each.created_at)
    return first


@TIMES
@pytest.mark.parametrize("given", [ALL, {"script": "intake", "since": "2025-03-11"}], ids=["all", "a script, a time"])
def test_returning_users_are_those_who_came_before(
    model: Any, asked: Ask, given: Mapping[str, str], period: str, zone: str
) -> None:
    first = firsts_of(model, given.get("script"))
    came = defaultdict(list)
    for each in chosen(model, given):
        came[begins(each.created_at, period, zone)].append(each.user_id)
    same(
        report(asked, "returning_users", {**given, "period": period, "zone": zone}),
        [
            {
                "begins": day,
                "sessions": len(came[day]),
                "users": len(set(came[day])),
                "new_users": sum(begins(first[user], period, zone) == day for user in set(came[day])),
                "returning_users": sum(begins(first[user], period, zone) < day for user in set(came[day])),
            }
            for day in (list(periods(min(came), max(came), period)) if came else ())
        ],
    )


@TIMES
@pytest.mark.parametrize(
    "given", [ALL, {"script": "intake", "since": "2025-03-11", "until": "2025-04-02T12:00Z"}], ids=["all", "some"]
)
def test_cohorts_follow_users_from_their_first_session(
    model: Any, asked: Ask, given: Mapping[str, str], period: str, zone: str
) -> None:
    cohorts = defaultdict(set)
    for user, moment in firsts_of(model, given.get("script")).items():
        if within(moment, given):
            cohorts[begins(moment, period, zone)].add(user)
    came = {
        (each.user_id, begins(each.created_at, period, zone))
        for each in chosen(model, {"script": given["script"]} if "script" in given else {})
    }
    reckoned = []
    for cohort, users in cohorts.items():
        for later, day in enumerate(periods(cohort, begins(model.as_of, period, zone), period)):
            back = sum((user, day) in came for user in users)
            reckoned.append(
                {"cohort": cohort, "later": later, "users": len(users), "came": back, "share": back / len(users)}
            )
    same(report(asked, "cohorts", {**given, "period": period, "zone": zone}), reckoned)


@TIMES
@pytest.mark.parametrize(
    "given", [ALL, {"script": "intake", "since": "2025-03-11", "until": "2025-04-02T12:00Z"}], ids=["all", "some"]
)
def test_activity_counts_what_happened_in_each_period(
    model: Any, asked: Ask, given: Mapping[str, str], period: str, zone: str
) -> None:
    of_script = chosen(model, {"script": given["script"]} if "script" in given else {})
    forks = {each.session_id for each in model.sessions if each.forked_from is not None}
    turns = [
        (begins(each.finished_at, period, zone), each)
        for each in model.turns
        if each.session_id not in forks
        and given.get("script") in {None, each.script_id}
        and within(each.finished_at, given)
    ]
    begun = Counter(begins(each.created_at, period, zone) for each in of_script if within(each.created_at, given))
    ended = Counter(
        begins(each.completed_at, period, zone)
        for each in of_script
        if each.completed_at is not None and within(each.completed_at, given)
    )
    finished = Counter(
        begins(each.completed_at, period, zone)
        for each in of_script
        if is_finished(each) and within(each.completed_at, given)
    )
    days = {*begun, *ended, *(day for day, _ in turns)}
    same(
        report(asked, "activity", {**given, "period": period, "zone": zone}),
        [
            {
                "begins": day,
                "begun": begun[day],
                "completed": ended[day],
                "finished": finished[day],
                "sessions": len({each.session_id for at, each in turns if at == day}),
                "users": len({each.user_id for at, each in turns if at == day}),
                "turns": sum(at == day for at, _ in turns),
                "messages": sum(each.messages for at, each in turns if at == day),
            }
            for day in (periods(min(days), max(days), period) if days else ())
        ],
    )


def test_each_figure_of_a_report_is_defined(asked: Ask) -> None:
    needed = {"funnel": "'intake'", "next_steps": "'intake'", "message_search": "'a'"}
    undefined = []
    for named in REPORTS:
        if named.name in {"session_at", "variables_at"}:  # their columns are those of tables
            continue
        for column in asked(f"DESCRIBE FROM {named.name}({needed.get(named.name, '')})"):
            is_figure = column["column_type"] in {"BIGINT", "INTEGER", "DOUBLE", "HUGEINT"}
            name = column["column_name"]
            if is_figure and name not in {"script_version", "turn", "seq"} and name not in named.definition:
                undefined.append((named.name, name))
    assert undefined == []
