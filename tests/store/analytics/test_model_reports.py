"""Each report says what a slow, plain computation over the same rows says: here those of models, detectors and arms."""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from fractions import Fraction
from typing import Any

import duckdb
import pytest

from tests.support.random_sessions import ARMS, START, Traffic
from tests.support.report_reference import Ask, chosen, grouped, is_finished, mean, quantile, report, same, within

ALL: Mapping[str, str] = {}
OF_INTAKE = {"script": "intake"}
LATER = {"script": "intake", "version": "2", "since": "2025-03-11", "until": "2025-04-02T12:00:00Z"}
CHOICES = pytest.mark.parametrize("given", [ALL, OF_INTAKE, LATER], ids=["all", "a script", "a version, a time"])


def calls_of(model: Any, given: Mapping[str, str]) -> list[Any]:
    return [
        each
        for each in model.llm_calls
        if given.get("script") in {None, each.script_id}
        and given.get("version") in {None, str(each.script_version)}
        and within(each.started_at, given)
    ]


def total(values: Any) -> float | None:
    retained = [value for value in values if value is not None]
    return float(sum(retained)) if retained else None


@pytest.mark.slow
@CHOICES
def test_model_cost_adds_up_what_calls_took(model: Any, asked: Ask, given: Mapping[str, str]) -> None:
    reckoned = []
    for (script, version, name, purpose), calls in grouped(
        calls_of(model, given), "script_id", "script_version", "model", "purpose"
    ):
        sessions = {each.session_id for each in calls}
        cost = total(each.cost for each in calls)
        reckoned.append(
            {
                "script_id": script,
                "script_version": version,
                "model": name,
                "purpose": purpose,
                "calls": len(calls),
                "failed": sum(each.outcome == "failed" for each in calls),
                "in_doubt": sum(each.outcome == "in_doubt" for each in calls),
                "lost": sum(each.used is False for each in calls),
                "input_tokens": sum(each.input_tokens or 0 for each in calls),
                "cached_tokens": sum(each.cached_tokens or 0 for each in calls),
                "output_tokens": sum(each.output_tokens or 0 for each in calls),
                "estimated": sum(
                    (each.input_tokens or 0) + (each.output_tokens or 0) for each in calls if each.counted is False
                ),
                "cost": cost,
                "lost_cost": total(each.cost for each in calls if each.used is False),
                "sessions": len(sessions),
                "cost_per_session": None if cost is None else cost / len(sessions),
            }
        )
    same(report(asked, "model_cost", given), reckoned)


@CHOICES
def test_model_latency_is_that_of_answered_calls(model: Any, asked: Ask, given: Mapping[str, str]) -> None:
    reckoned = []
    for (name, purpose), calls in grouped(calls_of(model, given), "model", "purpose"):
        done = [each for each in calls if each.outcome == "done"]
        times = [each.latency_ms for each in done]
        firsts = [each.first_words_ms for each in done if each.first_words_ms is not None]
        reckoned.append(
            {
                "model": name,
                "purpose": purpose,
                "calls": len(calls),
                "failed_share": sum(each.outcome == "failed" for each in calls) / len(calls),
                "p50_ms": quantile(times, 0.5),
                "p90_ms": quantile(times, 0.9),
                "p95_ms": quantile(times, 0.95),
                "mean_ms": mean(times),
                "first_words_p50_ms": quantile(firsts, 0.5),
                "first_words_p95_ms": quantile(firsts, 0.95),
                "attempts": mean(each.attempts for each in done),
                "degraded": sum(bool(each.degraded) for each in done),
            }
        )
    same(report(asked, "model_latency", given), reckoned)


@CHOICES
def test_detector_hits_count_what_detectors_saw(model: Any, asked: Ask, given: Mapping[str, str]) -> None:
    sessions = chosen(model, given)
    known = {each.session_id: each.script_id for each in sessions}
    seen = [each for each in model.detections if each.session_id in known]
    reckoned = []
    for (script, detector, label, by), hits in grouped(seen, "script_id", "detector", "label", "seen_by"):
        among = {each.session_id for each in hits}
        reckoned.append(
            {
                "script_id": script,
                "detector": detector,
                "label": label,
                "seen_by": by,
                "hits": len(hits),
                "sessions": len(among),
                "users": len({each.user_id for each in hits}),
                "share": len(among) / sum(each.script_id == script for each in sessions),
                "mean_score": mean(each.score for each in hits),
                "mean_severity": mean(each.severity for each in hits),
                "max_severity": max(each.severity for each in hits),
            }
        )
    same(report(asked, "detector_hits", given), reckoned)


# -- experiments ----------------------------------------------------------------------------------------------------

GOALS = pytest.mark.parametrize(
    "goal",
    [
        {},
        {"goal_phase": "part"},
        {"goal_topic": "hello", "goal_variable": "name"},
        {"goal_action": "ask_1"},
        {"goal_variable": "mood", "goal_value": "low"},
    ],
    ids=["completed", "a phase", "a topic and a variable", "an action", "a value"],
)


def has_reached(model: Any, exposure: Any, goal: Mapping[str, str]) -> bool:
    def later(table: str) -> list[Any]:
        return [
            each for each in getattr(model, table) if each.session_id == exposure.session_id and each.seq > exposure.seq
        ]

    scopes = [each for each in later("scope_visits") if each.outcome != "skipped"]
    visits = [each for each in later("action_visits") if each.outcome != "skipped"]
    writes = [each for each in later("variable_history") if each.type != "null"]
    held = {
        "goal_phase": any(each.scope == "phase" and each.phase_id == goal.get("goal_phase") for each in scopes),
        "goal_topic": any(each.scope == "topic" and each.topic_id == goal.get("goal_topic") for each in scopes),
        "goal_action": any(each.action_id == goal.get("goal_action") for each in visits),
        "goal_variable": any(
            each.name == goal.get("goal_variable") and goal.get("goal_value") in {None, each.new_text}
            for each in writes
        ),
    }
    if not goal:
        return any(each.session_id == exposure.session_id and is_finished(each) for each in model.sessions)
    return all(held[name] for name in goal if name in held)


def wilson(hits: int, cases: int) -> tuple[float, float]:
    z = 1.959963984540054
    rate = hits / cases
    middle = (rate + z * z / (2 * cases)) / (1 + z * z / cases)
    half = z / (1 + z * z / cases) * math.sqrt(rate * (1 - rate) / cases + z * z / (4 * cases * cases))
    return max(0.0, middle - half), min(1.0, middle + half)


def newcombe(hits: int, cases: int, base_hits: int, base_cases: int) -> tuple[float, float]:
    one, other = hits / cases, base_hits / base_cases
    (low, high), (base_low, base_high) = wilson(hits, cases), wilson(base_hits, base_cases)
    below, above = math.hypot(one - low, base_high - other), math.hypot(high - one, other - base_low)
    return one - other - below, one - other + above


def fisher(hits: int, cases: int, base_hits: int, base_cases: int) -> float:
    """Compute Fisher's exact test in whole numbers: sum the tables with these margins that are no likelier."""
    reached = hits + base_hits
    tables = [
        math.comb(cases, k) * math.comb(base_cases, reached - k)
        for k in range(max(0, reached - base_cases), min(reached, cases) + 1)
    ]
    found = math.comb(cases, hits) * math.comb(base_cases, base_hits)
    return float(Fraction(sum(each for each in tables if each <= found), math.comb(cases + base_cases, reached)))


def normal(hits: int, cases: int, base_hits: int, base_cases: int) -> float:
    pooled = (hits + base_hits) / (cases + base_cases)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / cases + 1 / base_cases))
    return math.erfc(abs(hits / cases - base_hits / base_cases) / spread / math.sqrt(2))


def compared(k: int, n: int, k0: int, n0: int) -> dict[str, Any]:
    """Return what is said of an arm beside the base arm."""
    least = min(n, n0) * Fraction(min(k + k0, n + n0 - k - k0), n + n0)
    test = fisher if least < 10 else normal
    low, high = newcombe(k, n, k0, n0)
    return {
        "difference": k / n - k0 / n0,
        "difference_low": low,
        "difference_high": high,
        "p_value": test(k, n, k0, n0),
        "test": "fisher" if test is fisher else "z",
    }


def first_arm(model: Any, experiment: str, arms: Collection[str]) -> str:
    """Return the arm that the newest version lists first."""
    versions = {each.digest: each.version for each in model.scripts}
    places: dict[str, tuple[int, int]] = {}
    for row in model.script_arms:
        if row.experiment == experiment and row.arm in arms:
            places[row.arm] = max(places.get(row.arm, (0, 0)), (versions[row.digest], row.position))
    return min(arms, key=lambda arm: (places[arm][1], arm))


@pytest.mark.slow
@GOALS
@pytest.mark.parametrize(("unit", "base"), [(None, None), ("session", None), ("user", "b")])
@pytest.mark.parametrize("given", [ALL, OF_INTAKE], ids=["all", "a script"])
def test_experiments_compare_their_arms(
    model: Any, asked: Ask, given: Mapping[str, str], unit: str | None, base: str | None, goal: Mapping[str, str]
) -> None:
    known = {each.session_id for each in chosen(model, given)}
    arms: dict[str, dict[str, dict[Any, bool]]] = defaultdict(lambda: defaultdict(dict))
    for each in model.exposures:
        if each.session_id in known:
            who = each.user_id if (unit or each.unit) == "user" else each.session_id
            counted = arms[each.experiment][each.arm]
            counted[who] = counted.get(who, False) or has_reached(model, each, goal)
    reckoned = []
    for experiment, of in arms.items():
        first = base if base in of else first_arm(model, experiment, of)
        n0, k0 = len(of[first]), sum(of[first].values())
        for arm, counted in of.items():
            n, k = len(counted), sum(counted.values())
            low, high = wilson(k, n)
            reckoned.append(
                {
                    "experiment": experiment,
                    "arm": arm,
                    "unit": unit or ARMS[experiment][0],
                    "counted": n,
                    "reached": k,
                    "rate": k / n,
                    "low": low + 0.0,
                    "high": high,
                    **(compared(k, n, k0, n0) if arm != first else dict.fromkeys(compared(1, 2, 1, 2))),
                }
            )
    asking = {**given, **goal} | ({} if base is None else {"base": base}) | ({} if unit is None else {"unit": unit})
    if model.file is not None:  # no script there has an experiment, and but for the variable any of these
        is_known = base is None and goal.keys() <= {"goal_variable", "goal_value"}
        with nullcontext() if is_known else pytest.raises(duckdb.Error, match="there is no"):
            assert report(asked, "experiments", asking) == []
        return
    found = report(asked, "experiments", asking)
    for row in (*found, *reckoned):  # near 0 and in the p-value rounding shows
        for name, places in (("p_value", 5), ("low", 9), *((each, 9) for each in row if "difference" in each)):
            row[name] = None if row[name] is None else round(row[name], places) + 0.0
    same(found, reckoned)


@pytest.mark.parametrize("z", [0.0, 0.5, 1.0, 1.96, 3.3, 6.0, 12.0])
def test_chance_of_a_difference_is_of_the_normal_distribution(asked: Ask, z: float) -> None:
    assert asked(f"SELECT two_sided_p({z}) AS p")[0]["p"] == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-6)


@pytest.mark.parametrize(
    ("hits", "cases", "base_hits", "base_cases"),
    [(3, 10, 8, 12), (0, 10, 0, 12), (1, 1, 0, 1), (7, 1000, 1, 900), (12, 4000, 31, 3900), (995, 1000, 870, 880)],
)
def test_fisher_s_test_is_exact(asked: Ask, hits: int, cases: int, base_hits: int, base_cases: int) -> None:
    found = asked(f"SELECT fisher_p({hits}, {cases}, {base_hits}, {base_cases}) AS p")[0]["p"]
    assert found == pytest.approx(fisher(hits, cases, base_hits, base_cases), rel=1e-6)


def test_the_interval_of_a_difference_is_newcombes(asked: Ask) -> None:
    ends = asked("SELECT newcombe_low(56, 70, 48, 80) AS low, newcombe_high(56, 70, 48, 80) AS high")[0]
    assert (round(ends["low"], 4), round(ends["high"], 4)) == (0.0524, 0.3339)  # Newcombe (1998), table II, method 10


def test_interval_of_no_case_begins_at_0_and_of_all_ends_at_1(asked: Ask) -> None:
    ends = asked("SELECT wilson_low(0, n) AS low, wilson_high(n, n) AS high FROM range(1, 40) AS cases(n)")
    assert ends == [{"low": 0.0, "high": 1.0}] * 39


def masked(variables: list[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    """Return a masked file of sessions that met an experiment and wrote these variables afterwards."""
    model = Traffic(1).model
    model.variable_history = []  # type: ignore[attr-defined]
    for exposure in model.exposures:
        for each in variables:
            model.add(
                "variable_history", session_id=exposure.session_id, user_id="", turn=0, seq=exposure.seq + 1,
                written_at=START, scope="session", source="user", is_pii=False, **each,
            )  # fmt: skip
    connection = model.written()
    connection.execute("UPDATE about SET is_masked = true")
    return connection


def test_masked_values_are_no_goal() -> None:
    with (
        masked([{"name": "city", "type": "text", "new": None, "new_text": None}]) as connection,
        pytest.raises(duckdb.InvalidInputException, match="the values of `city` are masked here: ask with --unmasked"),
    ):
        connection.execute("FROM experiments(goal_variable := 'city', goal_value := 'Rome')").fetchall()


def test_masked_files_count_choices_and_values_of_any_kind() -> None:
    with masked(
        [
            {"name": "city", "type": "text", "new": None, "new_text": None},
            {"name": "mood", "type": "choice", "new": '"low"', "new_text": "low"},
        ]
    ) as connection:
        for goal in ("goal_variable := 'mood', goal_value := 'low'", "goal_variable := 'city'"):
            rows = connection.execute(f"SELECT counted, reached FROM experiments({goal})").fetchall()
            assert rows
            assert all(counted == reached for counted, reached in rows)


# -- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"words": "garden"},
        {"words": "  RIVER   garden "},
        {"words": "睡眠"},
        {"words": "焦虑.*"},
        {"words": "a+b river", "role": "user"},
        {"words": "river", "script": "intake", "since": "2025-03-11", "until": "2025-04-02T12:00:00Z"},
        {"words": "nowhere"},
        {"words": "it's"},
    ],
    ids=lambda given: "-".join(given.values()),
)
def test_a_search_finds_the_messages_with_all_the_words(model: Any, asked: Ask, given: Mapping[str, str]) -> None:
    scripts = {
        each.session_id: each.script_id
        for each in chosen(model, {"script": given["script"]} if "script" in given else {})
    }
    words = given["words"].casefold().split()
    reckoned = [
        {
            "created_at": each.created_at,
            "script_id": scripts[each.session_id],
            "session_id": each.session_id,
            "user_id": each.user_id,
            "turn": each.turn,
            "seq": each.seq,
            "role": each.role,
            "content": each.content,
            "is_taken_back": each.is_taken_back,
        }
        for each in model.messages
        if each.session_id in scripts
        and all(re.search(re.escape(word), each.content.casefold()) for word in words)
        and given.get("role") in {None, each.role}
        and within(each.created_at, given)
    ]
    found = report(asked, "message_search", {**given, "hits_max": "1000"})
    assert [each["created_at"] for each in found] == sorted((each["created_at"] for each in found), reverse=True)
    same(found, reckoned)
    same(report(asked, "message_search", {**given, "hits_max": "3"}), found[:3])


@pytest.mark.parametrize("words", ["garden", "nowhere"])
def test_a_masked_file_says_why_it_cannot_be_searched(words: str) -> None:
    connection = Traffic(1).model.written()
    connection.execute("UPDATE about SET is_masked = true")
    with pytest.raises(duckdb.InvalidInputException, match="what was said is masked here: ask with --unmasked"):
        connection.execute(f"FROM message_search('{words}')").fetchall()
    connection.close()
