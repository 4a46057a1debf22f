"""The calls of a turn and their journal: begun before, ended after, whatever comes between."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from runtime.calls import CallInterrupted, Calls, digest_of
from runtime.events import Message
from runtime.models.scripted import ScriptedModel
from runtime.ports import Ended, Hear, Intent, Known, ModelFailed, ModelReply, ModelRequest, Usage

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
ASKED = ModelRequest(purpose="say", action_id="hello", round=0, task="Greet.", locale="en", now=NOON)


class Notes:
    """A journal that writes down what it is told; earlier attempts made the calls that are known."""

    def __init__(self, *known: Known) -> None:
        self.notes: list[str] = []
        self._known = list(known)

    def known(self, digest: str) -> Known | None:
        found = [each for each in self._known if each.intent.digest == digest]
        self._known = [each for each in self._known if each not in found[:1]]
        return found[0] if found else None

    async def begin(self, request: ModelRequest, digest: str, model: str) -> Intent:
        self.notes.append(f"begin {model}")
        return intent(request)

    async def end(self, intent: Intent, reply: ModelReply | None, error: str = "", usage: Usage | None = None) -> Ended:
        self.notes.append(f"end {error or (reply.text if reply else '')}")
        kept = reply if reply is None or reply.text != "unkeepable" else None
        return Ended(reply=kept, error=error or ("" if kept else "cannot be kept"), usage=usage, ended_at=NOON)

    async def told(self, intent: Intent) -> None:
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


DONE = Known(intent(ASKED), Ended(reply=ModelReply(text="Known."), ended_at=NOON))
FAILED = Known(intent(ASKED), Ended(error="no answer", ended_at=NOON))
CUT_OFF = Known(intent(ASKED), None)


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
async def test_what_an_earlier_attempt_left(known: list[Known], says: str, notes: list[str]) -> None:
    journal = Notes(*known)
    calls = Calls(ScriptedModel({"hello": ["Hello."]}), journal)
    assert (await calls.make(ASKED)).text == says
    assert journal.notes == notes
    assert [(each.is_reused, each.reply.text) for each in calls.made if each.reply] == [(says == "Known.", says)]


async def test_a_call_that_was_cut_off_fails_once_where_the_script_says_so() -> None:
    journal = Notes(CUT_OFF)
    calls = Calls(ScriptedModel({"hello": ["Hello."]}), journal)
    with pytest.raises(CallInterrupted):
        await calls.make(ASKED, "fail")
    assert (await calls.make(ASKED, "fail")).text == "Hello."
    assert journal.notes == ["told", "begin scripted", "end Hello."]


class Broken(ScriptedModel):
    """Says two words, and then something else happens."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__({"hello": ["unkeepable"]})
        self._error = error

    async def complete(self, request: ModelRequest, hear: Hear | None = None) -> ModelReply:
        if self._error is not None:
            raise self._error
        return await super().complete(request)


@pytest.mark.parametrize(
    ("error", "note", "raised"),
    [
        (ModelFailed("no answer"), "end no answer", ModelFailed),
        (asyncio.CancelledError(), "end given up before its end", asyncio.CancelledError),
        (ZeroDivisionError(), "end given up before its end", ZeroDivisionError),
        (None, "end unkeepable", ModelFailed),
    ],
)
async def test_whatever_happens_a_call_that_was_begun_is_ended(
    error: BaseException | None, note: str, raised: type[BaseException]
) -> None:
    journal = Notes()
    calls = Calls(Broken(error), journal)
    with pytest.raises(raised):
        await calls.make(ASKED)
    assert journal.notes == ["begin scripted", note]
    assert [(each.reply, each.ended is not None) for each in calls.made] == [(None, True)]


def test_the_same_request_has_the_same_digest_at_another_time_and_under_other_ids() -> None:
    said = Message(number=1, message_id="a", role="user", content="hi", action_id="", metadata={})
    one = msgspec.structs.replace(ASKED, history=(said,))
    again = msgspec.structs.replace(
        ASKED, now=NOON + timedelta(days=1), history=(msgspec.structs.replace(said, message_id="b"),)
    )
    other = msgspec.structs.replace(ASKED, history=(msgspec.structs.replace(said, content="hi!"),))
    assert digest_of(one) == digest_of(again)
    assert digest_of(one) != digest_of(other)
