"""What a turn and the end of a conversation came to, beside what its case expects."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from api.cases.model import CaseEnd, CaseEvent, CaseTurn, FoundCase, Keys
from api.playing import Player
from runtime.engine import Turn
from runtime.events import ActionSkipped, Body, Emitted, Message, ScopeSkipped, Warned
from runtime.scopes import Scopes
from runtime.state import State, Wait
from scripts.model import Scope
from scripts.values import Value


class Difference(Struct, frozen=True):
    """Something expected beside what came, and where in the case (or its turn) the expectation is written."""

    what: str
    expected: Value
    got: Value
    keys: Keys


class Failure(Struct, frozen=True):
    """One thing that is not as expected; `turn` is none for what is compared at the end."""

    what: str
    expected: Value
    got: Value
    file: str
    line: int
    turn: int | None = None
    given: str = ""


def position_of(state: State) -> str:
    """``phase/topic/action``, or the end."""
    return "/".join([state.phase, state.topic, state.frames[-1].action]) if state.frames else "the end"


def turn_failures(found: FoundCase, number: int, expected: CaseTurn, turn: Turn) -> Iterator[Failure]:
    """What a turn came to that its case does not expect."""
    for each in _turn_differences(found, expected, turn):
        at = found.line("turns", number, *each.keys)
        yield Failure(each.what, each.expected, each.got, found.file, at, turn=number, given=expected.given)


def _turn_differences(found: FoundCase, expected: CaseTurn, turn: Turn) -> Iterator[Difference]:
    bodies = [event.body for event in turn.events]
    yield from _said(expected, [message for message in turn.messages if message.role == "assistant"])
    if expected.emit is not None:
        yield from _emitted(expected.emit, [body for body in bodies if isinstance(body, Emitted)])
    if expected.skipped is not None:
        skipped = tuple(_skipped(bodies))
        if skipped != expected.skipped:
            yield Difference("skipped", list(expected.skipped), list(skipped), ("skipped",))
    yield from _waits(expected, turn.state.wait)
    values = Scopes(found.script.program, turn.state).flat() if expected.variables else {}
    for name, wanted, got in _unlike(values, expected.variables):
        yield Difference(f"variable {name}", wanted, got, ("variables", name))
    at = position_of(turn.state)
    if expected.position is not None and at != expected.position:
        yield Difference("at", expected.position, at, ("at",))


def _said(expected: CaseTurn, messages: list[Message]) -> Iterator[Difference]:
    said = [message.content for message in messages]
    pairs = itertools.zip_longest(expected.expect or (), said) if expected.expect is not None else ()
    for index, (pattern, got) in enumerate(pairs):
        if pattern is None or got is None or not _fits(got, pattern):
            yield Difference(f"message {index + 1}", pattern, got, ("expect", index))
    for index, pattern in enumerate(expected.not_said):
        for got in said:
            if _fits(got, pattern):
                yield Difference("not_said", f"no message like {pattern}", got, ("not_said", index))
    if expected.show is None:
        return
    shown = [media for message in messages if isinstance(media := message.metadata.get("media"), dict)]
    for index, (wanted, has) in enumerate(itertools.zip_longest(expected.show, shown)):
        texts = {name: str(value) for name, value in (has or {}).items()}
        if wanted is None or has is None or not all(_fits(texts.get(key, ""), each) for key, each in wanted.items()):
            yield Difference(f"show {index + 1}", None if wanted is None else dict(wanted), has, ("show", index))


def _emitted(expected: Iterable[CaseEvent], emitted: Iterable[Emitted]) -> Iterator[Difference]:
    for index, (wanted, got) in enumerate(itertools.zip_longest(expected, emitted)):
        if wanted is not None and got is not None and wanted.event == got.event and _same(got.data, wanted.data):
            continue
        named: Value = None if wanted is None else {"event": wanted.event} | _data(wanted.data)
        has: Value = None if got is None else {"event": got.event} | _data(got.data)
        yield Difference(f"emit {index + 1}", named, has, ("emit", index))


def _data(data: Mapping[str, Value] | None) -> dict[str, Value]:
    return {} if data is None else {"data": dict(data)}


def _same(got: Mapping[str, Value], wanted: Mapping[str, Value] | None) -> bool:
    return wanted is None or _equal(dict(got), dict(wanted))


def _skipped(bodies: Iterable[Body]) -> Iterator[str]:
    for body in bodies:
        if isinstance(body, ScopeSkipped):
            yield body.id
        elif isinstance(body, ActionSkipped):
            yield body.action_id


def _waits(expected: CaseTurn, wait: Wait | None) -> Iterator[Difference]:
    kind = None if wait is None else wait.kind
    if expected.wait is not None and kind != expected.wait:
        yield Difference("wait", expected.wait, kind, ("wait",))
    offered = () if wait is None else wait.choices
    if expected.choices is not None:
        for index, (wanted, choice) in enumerate(itertools.zip_longest(expected.choices, offered)):
            key, pattern = _choice(wanted)
            if choice is None or wanted is None or choice.key != key or not _fits(choice.text, pattern):
                got: Value = None if choice is None else {choice.key: choice.text}
                yield Difference(f"choice {index + 1}", wanted, got, ("choices", index))
    suggestion = None if wait is None else wait.suggestion
    if expected.suggestion is not None and not _fits(suggestion or "", expected.suggestion):
        yield Difference("suggestion", expected.suggestion, suggestion or None, ("suggestion",))


def _choice(wanted: Value) -> tuple[str, str]:
    """The key of an expected choice, and the pattern of its text."""
    if isinstance(wanted, dict):
        return next(((key, str(text)) for key, text in wanted.items()), ("", "*"))
    return str(wanted), "*"


def _fits(text: str, pattern: str) -> bool:
    return pattern == text or fnmatchcase(text, pattern)


# -- at the end -------------------------------------------------------------------------------------------------------


def end_failures(found: FoundCase, player: Player) -> Iterator[Failure]:
    """What a conversation came to at its end, and the warnings of all of it, that its case does not expect."""
    for each in (*_end_differences(found, player), *_warnings(found, player)):
        yield Failure(each.what, each.expected, each.got, found.file, found.line(*each.keys))


def _end_differences(found: FoundCase, player: Player) -> Iterator[Difference]:
    end, state, scopes = found.case.end, player.state, Scopes(player.program, player.state)
    if end.status is not None and state.execution_status != end.status:
        yield Difference("status", end.status, state.execution_status, ("end", "status"))
    if end.reason is not None and state.end_reason != end.reason:
        yield Difference("reason", end.reason, state.end_reason, ("end", "reason"))
    for name, wanted, got in _unlike(scopes.flat(), end.variables):
        yield Difference(f"variable {name}", wanted, got, ("end", "variables", name))
    for scope, variables in _expected_scopes(end):
        cells = {name: cell.value for name, cell in scopes.cells(scope).items()}
        for name, wanted, got in _unlike(cells, variables):
            yield Difference(f"{scope} variable {name}", wanted, got, ("end", "scopes", scope, name))


def _expected_scopes(end: CaseEnd) -> Iterator[tuple[Scope, Mapping[str, Value]]]:
    yield "global", end.scopes.global_scope
    yield "session", end.scopes.session
    yield "phase", end.scopes.phase
    yield "topic", end.scopes.topic


def _unlike(got: Mapping[str, Value], expected: Mapping[str, Value]) -> Iterator[tuple[str, Value, Value]]:
    """The expected values that are others."""
    for name, value in expected.items():
        if not _equal(got.get(name), value):
            yield name, value, got.get(name)


def _equal(one: Value, other: Value) -> bool:
    """Whether two values are the same; true is not 1, in a list or record neither."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[name]) for name, value in one.items())
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _warnings(found: FoundCase, player: Player) -> Iterator[Difference]:
    warned = [
        (body.code, f"{body.code} in turn {played.turn.state.turn} at {body.action_id}: {body.message}")
        for played in player.played
        for body in (event.body for event in played.turn.events)
        if isinstance(body, Warned)
    ]
    expected = found.case.warnings
    if expected is not None and tuple(code for code, _ in warned) != expected:
        yield Difference("warnings", list(expected), [line for _, line in warned], ("warnings",))
