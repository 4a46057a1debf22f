"""The calls of a turn and their journal: begun before, ended after, whatever comes between."""

import asyncio
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runtime.engine.engine import Turn, TurnFailed, run_turn
from runtime.models.recorded_models import ScriptedModel
from runtime.state.events import Message
from runtime.state.inputs import Start
from runtime.state.limits import Limits
from runtime.state.ports import (
    CallResult,
    GivenUp,
    Intent,
    ModelFailed,
    ModelReply,
    ModelRequest,
    OnReply,
    RecordedResult,
    Usage,
    digest_of,
)
from runtime.state.state import Spent
from runtime.turn.context import TurnEnvironment
from tests.support.runtime_session import NewSession

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
ASKED = ModelRequest(purpose="say", action_id="hello", round=0, task="Greet.", locale="en", now=NOON)
SCRIPT = """
- {ai_say: Greet., id: hello}
- {ask: And you?, id: asked}
"""


class Notes:
    """A journal that records its calls; earlier attempts made the calls that are known."""

    def __init__(self, *known: RecordedResult) -> None:
        self.notes: list[str] = []
        self.usages: list[Usage | None] = []
        self._known = list(known)

    @property
    def spent(self) -> Spent:
        return Spent(calls=len(self._known))

    def take_recorded(self, digest: str) -> RecordedResult | None:
        return self._known.pop(0) if self._known else None

    async def begin(self, request: ModelRequest, digest: str, model: str) -> Intent:
        self.notes.append(f"begin {model}")
        return intent(request)

    async def end(
        self, intent: Intent, reply: ModelReply | None, error: str = "", usage: Usage | None = None
    ) -> CallResult:
        self.usages.append(usage)
        self.notes.append(f"end {error or (reply.text if reply else '')}")
        retained = reply if reply is None or reply.text != "unkeepable" else None
        return CallResult(
            reply=retained, error=error or ("" if retained else "cannot be kept"), usage=usage, ended_at=NOON
        )

    async def note_interruption(self, intent: Intent) -> None:
        self.notes.append("told")


def intent(request: ModelRequest) -> Intent:
    return Intent(
        call_id="c",
        digest=digest_of(request),
        purpose=request.purpose,
        action_id=request.action_id,
        round=request.round,
        model="scripted",
        started_at=NOON,
    )


DONE = RecordedResult(intent(ASKED), CallResult(reply=ModelReply(text="Known."), ended_at=NOON))
FAILED = RecordedResult(intent(ASKED), CallResult(error="no answer", ended_at=NOON))
CUT_OFF = RecordedResult(intent(ASKED), None)


async def take(prepare: Callable[..., Any], journal: Notes, model: ScriptedModel, script: str = SCRIPT) -> Turn:
    """Return the first turn of a script, with a journal."""
    session, ids = prepare(script), itertools.count(1)
    return await run_turn(
        session.program,
        session.state,
        Start(),
        TurnEnvironment(
            model=model,
            now=NOON,
            ids=lambda: str(next(ids)),
            limits=Limits(),
            journal=journal,
        ),
    )


@pytest.mark.parametrize(
    ("known", "says", "notes"),
    [
        ([], "Hello.", ["begin scripted", "end Hello."]),
        ([DONE], "Known.", []),
        ([FAILED], "Hello.", ["begin scripted", "end Hello."]),
        ([CUT_OFF], "Hello.", ["begin scripted", "end Hello."]),
    ],
    ids=["new", "done", "failed", "cut off"],
)
async def test_what_an_earlier_attempt_left(
    prepare: NewSession, known: list[RecordedResult], says: str, notes: list[str]
) -> None:
    journal = Notes(*known)
    turn = await take(prepare, journal, ScriptedModel({"hello": ["Hello."]}))
    assert [message.content for message in turn.messages] == [says, "And you?"]
    assert journal.notes == notes
    assert [each.is_reused for each in turn.model_calls] == [says == "Known."]


async def test_interrupted_call_fails_the_turn_if_the_script_says_so(prepare: NewSession) -> None:
    journal = Notes(CUT_OFF)
    script = SCRIPT.replace("id: hello", "id: hello, on_interrupted: fail")
    with pytest.raises(TurnFailed) as failed:
        await take(prepare, journal, ScriptedModel({}), script)
    assert (failed.value.kind, failed.value.place[2], failed.value.retryable) == ("interrupted", "hello", True)
    assert journal.notes == ["told"]


class Broken(ScriptedModel):
    """Fails in one way or the other; else says what no journal keeps."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__({"hello": ["unkeepable"]})
        self._error = error

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        if self._error is not None:
            raise self._error
        return await super().complete(request)


@pytest.mark.parametrize(
    ("error", "note", "raised"),
    [
        (ModelFailed("no answer"), "end no answer", TurnFailed),
        (asyncio.CancelledError(), "end given up before its end", asyncio.CancelledError),
        (ZeroDivisionError(), "end given up before its end", ZeroDivisionError),
        (None, "end unkeepable", TurnFailed),
    ],
)
async def test_whatever_happens_a_call_that_was_begun_is_ended(
    prepare: NewSession, error: BaseException | None, note: str, raised: type[BaseException]
) -> None:
    journal = Notes()
    with pytest.raises(raised) as failed:
        await take(prepare, journal, Broken(error))
    assert journal.notes == ["begin scripted", note]
    assert journal.usages == [None]
    if isinstance(failed.value, TurnFailed):
        assert failed.value.kind == "model"
        assert [(call.reply, call.ended is not None) for call in failed.value.model_calls] == [(None, True)]


async def test_a_call_that_is_given_up_is_ended_with_what_it_took(prepare: NewSession) -> None:
    journal, cut = Notes(), asyncio.CancelledError()
    cut.__cause__ = GivenUp(Usage(model="tiny", input_tokens=7, counted=False))
    with pytest.raises(asyncio.CancelledError):
        await take(prepare, journal, Broken(cut))
    assert journal.usages == [Usage(model="tiny", input_tokens=7, counted=False)]


def test_time_and_ids_do_not_change_the_digest_of_a_request() -> None:
    said = Message(number=1, message_id="a", role="user", content="hi", action_id="", metadata={})
    one = msgspec.structs.replace(ASKED, history=(said,))
    again = msgspec.structs.replace(
        ASKED, now=NOON + timedelta(days=1), history=(msgspec.structs.replace(said, message_id="b"),)
    )
    other = msgspec.structs.replace(ASKED, history=(msgspec.structs.replace(said, content="hi!"),))
    assert digest_of(one) == digest_of(again)
    assert digest_of(one) != digest_of(other)
