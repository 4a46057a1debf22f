"""The client's views of a session: its state, variables by scope, position, wait and messages."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from api.catalog.script_views import script_outline
from api.errors import ApiError, body_of
from api.models.model_calls import usage_of
from api.schemas.calls import CallView, DebugCall, PromptMessageView, PromptView, UsageView
from api.schemas.errors import ErrorBody
from api.schemas.sessions import (
    CellView,
    ChatMessageView,
    ChoiceView,
    ColumnView,
    EventView,
    FieldView,
    FormView,
    Layer,
    MessageView,
    Position,
    SessionHandOver,
    SessionView,
    Snapshot,
    VariableStore,
    WaitView,
)
from api.schemas.timestamps import utc_text
from api.sessions.session_cache import CachedSession
from runtime.prompts.prompt import read_prompt
from runtime.state.form_view import RenderedColumn, RenderedForm
from runtime.state.ports import ModelReply, Usage
from runtime.state.program import Program
from runtime.state.scopes import Scopes
from runtime.state.state import Cell, ExecutionStatus, State, Wait
from runtime.turn.calls import ModelCall
from scripts.expressions.values import infer_type
from scripts.model.actions import Action, AiAsk, AiSay, Ask, Chat, Choose, Form, action_type, rounds_of
from store.interface.rows import EventRow, FailureRow, MessageRow, SettledCallRow, TurnEventsRow, TurnRow
from store.store import Store

_BEGIN = (
    "Send the session `sessionId` of `context` a message, with any `content`: then it begins. "
    "A new request to create it makes another session."
)
_ALWAYS_SENT = frozenset({"name", "label", "type", "required", "value"})  # properties of a form's fields


def snapshot(
    program: Program, state: State, execution_status: ExecutionStatus, failed_at: tuple[str, str, str] | None
) -> Snapshot:
    """Return the session after a turn; `failed_at` is the position at which the next turn failed."""
    scopes = Scopes(program, state)
    layers = VariableStore(
        global_=_globals(program, state),
        session=layer(state.session_cells),
        phase=layer(state.phase_cells),
        topic=layer(state.topic_cells),
    )
    return Snapshot(
        execution_status=execution_status,
        position=position(program, state, failed_at),
        variables=scopes.flat(),
        global_variables={name: cell.value for name, cell in layers.global_.items()},
        variable_store=layers,
        turn=state.turn,
        wait=wait_now(state),
        hand_over=UNSET if state.hand_over is None else SessionHandOver.of(state.hand_over),
    )


def layer(cells: Mapping[str, Cell]) -> Layer:
    """Return the variables of one scope."""
    return {
        name: CellView(value=cell.value, type=cell.type, last_updated=cell.last_updated, source=cell.source)
        for name, cell in cells.items()
    }


def _globals(program: Program, state: State) -> Layer:
    """Return the user's global variables over the project's defaults."""
    defaults = {
        name: CellView(value=each.value, type=each.type or infer_type(each.value), last_updated=None, source="default")
        for name, each in program.global_names.items()
        if each.value is not None
    }
    return {**defaults, **layer(state.global_cells)}


def position(program: Program, state: State, failed_at: tuple[str, str, str] | None = None) -> Position:
    """Return the current position of a session, or that at which its last turn attempt failed."""
    phase, topic = state.phase, state.topic
    action_id = state.frames[-1].action if state.frames else ""
    home, outermost = state.home(), state.frames[0].action if state.frames else ""
    if failed_at is not None:
        phase, topic, action_id = failed_at
        home, outermost = (phase, topic), action_id
    phase_index, topic_index, action_index = program.indices(phase, topic, outermost)
    action = program.action(*home, action_id) if action_id else None
    return Position(
        phase_index=phase_index,
        phase_id=phase,
        topic_index=topic_index,
        topic_id=topic,
        action_index=action_index,
        action_id=action_id,
        action_type=action_type(action) if action is not None else "",
        current_round=state.progress.round if state.progress is not None else 0,
        max_rounds=_rounds(action),
    )


def _rounds(action: Action | None) -> int:
    match action:
        case AiSay():
            return action.utterances
        case Ask() | AiAsk() | Chat() | Choose() | Form():
            return rounds_of(action)
        case _:
            return 0


def wait_now(state: State) -> WaitView | None:
    """Return what a session waits for: a text, while a person talks in place of the script."""
    return WaitView(kind="text") if state.operator else wait_view(state.wait)


def wait_view(wait: Wait | None) -> WaitView | None:
    """Return what the session waits for."""
    if wait is None:
        return None
    return WaitView(
        kind=wait.kind,
        choices=[ChoiceView(key=choice.key, text=choice.text) for choice in wait.choices] or UNSET,
        suggestion=wait.suggestion or UNSET,
        form=_form_view(wait.form) if wait.form is not None else UNSET,
        until=wait.until or UNSET,
    )


def _form_view(form: RenderedForm) -> FormView:
    fields = [
        FieldView(
            **_column(field),
            computed=field.computed,
            columns=[ColumnView(**_column(column)) for column in field.columns] or UNSET,
        )
        for field in form.fields
    ]
    return FormView(id=form.id, title=form.title, fields=fields, errors=form.errors)


def _column(column: RenderedColumn) -> dict[str, Any]:
    """Return the common fields of form fields and columns, without those that the script does not set."""
    fields = {name: getattr(column, name) for name in RenderedColumn.__struct_fields__}
    return {name: value for name, value in fields.items() if name in _ALWAYS_SENT or value not in (None, "", (), {})}


def message_view(row: MessageRow, gaps: tuple[tuple[int, int], ...] = ()) -> MessageView:
    """Return a recorded message; one in a gap was removed from the conversation."""
    return MessageView(role=row.role, **_message_fields(row, gaps))


def chat_message_view(row: MessageRow, gaps: tuple[tuple[int, int], ...] = ()) -> ChatMessageView:
    """Return a recorded message with the role `ai` in place of `assistant`."""
    return ChatMessageView(role="ai" if row.role == "assistant" else row.role, **_message_fields(row, gaps))


def _message_fields(row: MessageRow, gaps: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    return {
        "message_id": row.message_id,
        "number": row.seq,
        "content": row.content,
        "timestamp": row.created_at,
        "action_id": row.action_id or "",
        "metadata": row.metadata,
        "removed": True if gaps and any(first <= row.seq <= last for first, last in gaps) else UNSET,
        "characters": row.characters,
    }


def replies(row: TurnRow) -> list[MessageRow]:
    """Return the messages of a turn that are not the user's, in order."""
    return [message for message in row.messages if message.role != "user"]


def proactive_messages(row: TurnRow | TurnEventsRow) -> list[MessageRow]:
    """Return the messages that a session says by itself in a turn: those of a turn that a timer causes, or a person
    who talks in place of the script.
    """
    if not row.events or not _is_proactive(row.events[0]):
        return []
    return [message for message in row.messages if message.role == "assistant"]


def _is_proactive(first: EventRow) -> bool:
    return first.kind == "timer" or (first.kind == "intervention" and first.data["what"] in {"speak", "give_back"})


def event_views(row: TurnRow | TurnEventsRow) -> list[EventView]:
    """Return the events of a turn with the messages and variable writes that they reference."""
    messages = {message.seq: message for message in row.messages}
    views = []
    for event in row.events:
        data: Mapping[str, Any] = event.data
        if event.kind == "message":
            message = messages[event.data["message"]]
            data = msgspec.to_builtins(message_view(message))
        elif event.kind == "variable":
            data = msgspec.to_builtins(row.variables[event.data["variable"]])
        elif event.kind == "wait":
            wait = msgspec.convert(event.data["wait"], Wait)
            data = {**event.data, "wait": msgspec.to_builtins(wait_view(wait))}
        elif event.kind == "recalled":
            data = {**event.data, "units": [_unit_view(unit) for unit in event.data.get("units", ())]}
        camel = {_camel(name): value for name, value in data.items()}
        views.append(EventView(seq=event.seq, kind=event.kind, data=camel))
    return views


def _unit_view(unit: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a recalled memory unit with its neighbours."""
    around = [{_camel(name): value for name, value in each.items()} for each in unit.get("around", ())]
    view = {_camel(name): value for name, value in unit.items()}
    return view | ({"around": around} if around else {})


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def debug_call(call: ModelCall) -> DebugCall:
    """Return a call of a model in a turn, with its prompt."""
    reply, usage = call.reply or ModelReply(), call.ended.usage if call.ended is not None else None
    return DebugCall.of(
        reply,
        call.request,
        prompt=_prompt_view(usage.prompt if usage is not None else None),
        call_id=call.intent.call_id if call.intent is not None else None,
        model=call.intent.model if call.intent is not None else "",
        error=call.ended.error if call.ended is not None else "",
        reused=call.is_reused,
        usage=_usage_view(usage),
    )


def _prompt_view(stored: str | None) -> PromptView | None:
    if stored is None:
        return None
    prompt = read_prompt(stored)
    messages = [PromptMessageView(role=message.role, content=message.content) for message in prompt.messages]
    return PromptView(messages=messages, reply_schema=prompt.schema)


def call_view(row: SettledCallRow, *, debug: bool) -> CallView:
    """Return a recorded model call; with `debug`, its prompt and reply."""
    return CallView.of(
        row,
        error=row.error or "",
        usage=_usage_view(usage_of(row)),
        prompt=_prompt_view(row.prompt) if debug else UNSET,
        reply=row.reply if debug else UNSET,
    )


def _usage_view(usage: Usage | None) -> UsageView | None:
    return None if usage is None else UsageView.of(usage, failures=list(usage.failures))


def session_view(cached: CachedSession) -> SessionView:
    """Return the current state of a session."""
    return SessionView.of(
        cached.session,
        current_snapshot(cached),
        script_id=cached.session.script_uuid,
        model=cached.state.model or None,
        status=cached.state.status,
        ai_message=cached.current_question,
        error=_error_view(cached),
        locale=cached.state.locale,
        script=script_outline(cached.program.script),
        updated_at=cached.updated_at,
        completed_at=cached.updated_at if cached.state.status == "completed" else None,
    )


async def started_fields(store: Store, cached: CachedSession) -> dict[str, Any]:
    """Return the fields of a session with the messages of its last turn."""
    row = await store.turns.get(*cached.key, cached.state.turn)
    messages = [message_view(message) for message in replies(row)] if row is not None else []
    return {**msgspec.structs.asdict(session_view(cached)), "messages": messages}


def error_of(cached: CachedSession, failure: FailureRow) -> ApiError:
    """Return the error of the last attempt at a session's next turn."""
    place = msgspec.to_builtins(position(cached.program, cached.state, cached.failed_place))
    return ApiError(
        failure.code,
        failure.message,
        context={**context_of(cached), "position": place},
        lasting=failure.is_lasting,
        retry="" if cached.state.begun else _BEGIN,
    )


def context_of(cached: CachedSession) -> dict[str, Any]:
    """Return the fields that identify a session in an error."""
    return {
        "scriptId": cached.session.script_uuid,
        "scriptName": cached.program.script.title or cached.session.script_id,
        "sessionId": cached.session.session_id,
    }


def _error_view(cached: CachedSession) -> ErrorBody | None:
    failure = cached.failure
    if failure is None:
        if cached.execution_status != "error":
            return None
        failure = cached.failure_row(  # a copy has no failures of the original
            "ACTION_EXECUTION_ERROR",
            "the session has not begun, because its first turn failed in the session that it is a copy of",
            ("", "", ""),
            cached.session.created_at,
        )
    return body_of(error_of(cached, failure), {"timestamp": utc_text(failure.failed_at)})


def current_snapshot(cached: CachedSession) -> Snapshot:
    """Return the current position of a session, or that at which its last turn failed."""
    return snapshot(cached.program, cached.state, cached.execution_status, cached.failed_place)
