"""What reports are computed with a second time: selected rows, percentiles, periods; the same rows in any order."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from store.analytics.reporting import report_named, statement

Rows = list[dict[str, Any]]
Ask = Callable[[str], Rows]
FROM, TILL = datetime(2025, 3, 11, tzinfo=UTC), datetime(2025, 4, 2, 12, tzinfo=UTC)
"""What `since` and `until` stand for, wherever they are given."""


def same(found: Rows, reckoned: Iterable[Mapping[str, Any]]) -> None:
    """Whether the rows are the same, whatever their order, and fractions but for rounding."""
    ours, theirs = (sorted(map(_split, rows), key=repr) for rows in (found, list(reckoned)))
    assert [whole for whole, _ in ours] == [whole for whole, _ in theirs]
    for (whole, one), (_, other) in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12), whole


def _split(row: Mapping[str, Any]) -> tuple[list[tuple[str, Any]], dict[str, float]]:
    """Return a row without its fractions, and those."""
    fractions = {name: value for name, value in row.items() if isinstance(value, float)}
    return sorted((name, value) for name, value in row.items() if name not in fractions), fractions


def report(ask: Ask, name: str, given: Mapping[str, str]) -> Rows:
    return ask(statement(report_named(name), given))


def chosen(model: Any, given: Mapping[str, str]) -> list[SimpleNamespace]:
    return [each for each in model.sessions if each.forked_from is None and fits(each, given)]


def fits(session: SimpleNamespace, given: Mapping[str, str]) -> bool:
    return (
        given.get("script") in {None, session.script_id}
        and given.get("version") in {None, str(session.first_version)}
        and ("since" not in given or session.created_at >= FROM)
        and ("until" not in given or session.created_at < TILL)
    )


def is_finished(session: SimpleNamespace) -> bool:
    return bool(session.status == "completed" and session.ended_by in {"script", None})


def reached_at(model: Any, milestone: str | None) -> dict[Any, tuple[datetime, int]]:
    """By session when it reached the milestone, and in which turn; without one, when it came to its script's end."""
    if milestone is None:
        going: dict[Any, int] = {}  # the last turn after which a session was not completed
        for turn in model.turns:
            if turn.status != "completed":
                going[turn.session_id] = max(going.get(turn.session_id, 0), turn.turn)
        return {
            each.session_id: (each.completed_at, going.get(each.session_id, -1) + 1)
            for each in model.sessions
            if is_finished(each)
        }
    found: dict[Any, tuple[datetime, int]] = {}
    for visit in (*model.action_visits, *(each for each in model.scope_visits if each.scope == "topic")):
        name = getattr(visit, "action_id", visit.topic_id)
        if name == milestone and visit.outcome != "skipped":
            there = (visit.entered_at, visit.entered_turn)
            found[visit.session_id] = min(found.get(visit.session_id, there), there)
    return found


def within(moment: datetime, given: Mapping[str, str]) -> bool:
    return ("since" not in given or moment >= FROM) and ("until" not in given or moment < TILL)


def share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def quantile(values: Iterable[float], at: float) -> float | None:
    """Between the two values next to the place, in proportion."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = at * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return float(below + (above - below) * (place - math.floor(place)))


def mean(values: Iterable[float]) -> float | None:
    retained = list(values)
    return float(statistics.fmean(retained)) if retained else None


def grouped(rows: Iterable[Any], *names: str) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(getattr(row, name) for name in names)].append(row)
    yield from groups.items()


def path(*parts: str | None) -> str:
    return "/".join(part for part in parts if part is not None)


def is_given_up(model: Any, session: SimpleNamespace, days: float = 7) -> bool:
    return bool(session.status == "active" and model.as_of - session.updated_at >= timedelta(days=days))


def begins(moment: datetime, period: str, zone: str) -> date:
    day = moment.astimezone(ZoneInfo(zone)).date()
    match period:
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case _:
            return day


def following(day: date, period: str) -> date:
    return begins(
        datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        + timedelta(days={"day": 1, "week": 7, "month": 31}[period]),
        period,
        "UTC",
    )


def periods(first: date, last: date, period: str) -> Iterator[date]:
    while first <= last:
        yield first
        first = following(first, period)


def says_of(model: Any, script: str, *place: str | None) -> str | None:
    """Return what the newest version that has an action says there."""
    versions = {each.digest: each.version for each in model.scripts} | {
        each.digest: each.script_version for each in model.sessions
    }
    found = [
        (versions[row.digest], row.says)
        for row in model.script_actions
        if row.phase_position and row.script_id == script and (row.phase_id, row.topic_id, row.action_id) == place
    ]
    return max(found)[1] if found else None
