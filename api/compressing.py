"""Sessions summed up on request, and what models see of a session's conversation."""

from api.answer import Answer
from api.asking import Condition
from api.contexts import newest_said, opener_said, said_between
from api.hot import Hot
from api.lifecycle.interventions import Interventions
from api.schemas.contexts import Compressed, ContextView, LastResizeView, NewCompression, PromptMessage
from runtime.condensing import tokens_told
from runtime.context.attachments import attachments_of
from runtime.context.chosen import MESSAGES_MAX, Chosen, Contexts, shown
from runtime.context.memory import ContextMemory
from runtime.context.ports import View
from runtime.context.windows import recent, tokens_in
from runtime.events import Message
from runtime.inputs import Compress
from runtime.prompts.data import encoded
from runtime.state import State
from scripts.actions import Action
from store.record import Record

NEWEST = "newest"  # what there is where no strategy was chosen
SUMMARY, MEMO = "[Conversation Summary]", "[Memo]"
MORE = 20  # messages than are asked for, so that it is seen where exchanges begin
_KEPT = ("name", "tool_calls", "tool_call_id")  # of what comes with a message, for those who go on with it


async def compress(
    interventions: Interventions,
    record: Record,
    tenant: str,
    session_id: str,
    asked: NewCompression,
    condition: Condition,
) -> tuple[Answer, Compressed]:
    """Sums up all but the last messages of a session; nothing happens where that is done already. Raises ApiError."""

    async def wanted(hot: Hot) -> Compress | None:
        return await _to_compress(record, hot, asked.keep, asked.instruct)

    answer = await interventions.intervene(tenant, session_id, asked, wanted, condition)
    memory = answer.state.context or ContextMemory()
    by = next((event.data.get("by", "") for event in answer.row.events if event.kind == "resized"), "")
    return answer, Compressed(
        summary=memory.summary, summary_to=memory.summary_to, kept=_after(answer.state, memory.summary_to), by=by
    )


async def _to_compress(record: Record, hot: Hot, keep: int, instruct: str) -> Compress | None:
    session, gaps = hot.session, hot.state.gaps
    told = hot.state.context.summary_to if hot.state.context is not None else 0
    newest = await record.recent_messages(session.tenant, session.session_id, keep, without=gaps)
    last = newest[0].seq - 1 if len(newest) == keep else 0
    older = await said_between(record, session.tenant, session.session_id, told + 1, last, gaps) if last > told else ()
    return Compress(older, keep, instruct) if older else None


def _after(state: State, number: int) -> int:
    """How many messages of the conversation come after one."""
    gone = sum(max(last - max(first - 1, number), 0) for first, last in state.gaps)
    return state.message_seq - number - gone


# -- look -------------------------------------------------------------------------------------------------------------


def context_view(contexts: Contexts, hot: Hot) -> ContextView:
    """What a model would see of a session's conversation now, and what is kept for that."""
    chosen, view = _seen(contexts, hot)
    memory = hot.state.context or ContextMemory()
    last = memory.last_resize
    return ContextView(
        strategy=chosen.settings.strategy if chosen is not None else NEWEST,
        settings=chosen.settings if chosen is not None else None,
        summary=memory.summary,
        summary_to=memory.summary_to,
        memo=memory.memo,
        memo_to=memory.memo_to,
        last_resize=None if last is None else LastResizeView(type=last.type, turn=last.turn, reason=last.reason),
        failed=memory.failed,
        messages=[message.number for message in view.messages],
        tokens=sum(map(tokens_in, view.messages)) + tokens_told(view.summary, view.memo),
    )


async def history_of(record: Record, hot: Hot, messages_max: int, tokens_max: int | None) -> list[PromptMessage]:
    """The last messages of a conversation, from where an exchange begins, for a prompt of the application's own."""
    session, gaps = hot.session, hot.state.gaps
    opener = hot.state.context.opener if hot.state.context is not None else None
    if opener is None:
        opener = await opener_said(record, session.tenant, session.session_id, gaps)
    found: tuple[Message, ...] = ()
    for most in (messages_max + MORE, MESSAGES_MAX):  # a few more are read, or many where an exchange is as long
        said = await newest_said(record, session.tenant, session.session_id, most, gaps)
        found = recent(said, messages_max, tokens_max, opener)
        if len(said) < most or found[0].role == opener:
            break
    return [_plain(message) for message in found]


def context_messages(contexts: Contexts, hot: Hot) -> list[PromptMessage]:
    """What a model would see of a session's conversation now, as messages."""
    _, view = _seen(contexts, hot)
    accounts = [(SUMMARY, view.summary)] if view.summary else []
    accounts += [(MEMO, encoded(dict(view.memo)))] if view.memo else []
    told = [PromptMessage(role="system", content=f"{name} {text}") for name, text in accounts]
    return [*told, *map(_plain, view.messages)]


def _seen(contexts: Contexts, hot: Hot) -> tuple[Chosen | None, View]:
    chosen = contexts.chosen(hot.program.script, hot.state, _at_hand(hot))
    return chosen, shown(chosen, hot.history, hot.state.context)


def _at_hand(hot: Hot) -> Action | None:
    state, program = hot.state, hot.program
    path = (*state.home(), state.frames[-1].action) if state.frames else None
    return program.action(*path) if path is not None and program.has_action(path) else None


def _plain(message: Message) -> PromptMessage:
    others = {name: message.metadata[name] for name in _KEPT if message.metadata.get(name) is not None}
    attached = [f"[{each['type']}: {each['ref'] or '?'}]" for each in attachments_of(message)]
    return PromptMessage(role=message.role, content="\n".join(filter(None, [message.content, *attached])), **others)
