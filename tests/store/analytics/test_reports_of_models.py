"""Each report says what a slow, plain computation over the same rows says: here those of models, detectors and arms."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import duckdb
import pytest
from by_hand import Ask, chosen, grouped, mean, quantile, report, same, within
from traffic import Traffic

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
    kept = [value for value in values if value is not None]
    return float(sum(kept)) if kept else None


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
        return any(each.session_id == exposure.session_id and each.status == "completed" for each in model.sessions)
    return all(held[name] for name in goal if name in held)


def wilson(hits: int, cases: int) -> tuple[float, float]:
    z = 1.959963984540054
    rate = hits / cases
    middle = (rate + z * z / (2 * cases)) / (1 + z * z / cases)
    half = z / (1 + z * z / cases) * math.sqrt(rate * (1 - rate) / cases + z * z / (4 * cases * cases))
    return max(0.0, middle - half), min(1.0, middle + half)


@GOALS
@pytest.mark.parametrize(("unit", "base"), [("session", None), ("user", "b")])
@pytest.mark.parametrize("given", [ALL, OF_INTAKE], ids=["all", "a script"])
def test_experiments_compare_their_arms(
    model: Any, asked: Ask, given: Mapping[str, str], unit: str, base: str | None, goal: Mapping[str, str]
) -> None:
    known = {each.session_id for each in chosen(model, given)}
    arms: dict[str, dict[str, dict[Any, bool]]] = defaultdict(lambda: defaultdict(dict))
    for each in model.exposures:
        if each.session_id in known:
            who = each.user_id if unit == "user" else each.session_id
            counted = arms[each.experiment][each.arm]
            counted[who] = counted.get(who, False) or has_reached(model, each, goal)
    reckoned = []
    for experiment, of in arms.items():
        first = base if base in of else min(of)
        n0, k0 = len(of[first]), sum(of[first].values())
        for arm, counted in of.items():
            n, k = len(counted), sum(counted.values())
            pooled = (k + k0) / (n + n0)
            spread = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / n0))
            is_other = arm != first
            low, high = wilson(k, n)
            reckoned.append(
                {
                    "experiment": experiment,
                    "arm": arm,
                    "counted": n,
                    "reached": k,
                    "rate": k / n,
                    "low": low + 0.0,
                    "high": high,
                    "difference": k / n - k0 / n0 if is_other else None,
                    "p_value": math.erfc(abs(k / n - k0 / n0) / spread / math.sqrt(2)) if is_other and spread else None,
                }
            )
    asking = {**given, **goal, "unit": unit} | ({} if base is None else {"base": base})
    found = report(asked, "experiments", asking)
    for row in (*found, *reckoned):  # near 0 and in the p-value rounding shows
        for name, places in (("p_value", 5), ("low", 9), ("difference", 9)):
            row[name] = None if row[name] is None else round(row[name], places) + 0.0
    same(found, reckoned)


@pytest.mark.parametrize("z", [0.0, 0.5, 1.0, 1.96, 3.3, 6.0, 12.0])
def test_the_chance_of_a_difference_is_that_of_the_normal_distribution(asked: Ask, z: float) -> None:
    assert asked(f"SELECT two_sided_p({z}) AS p")[0]["p"] == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-6)


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
