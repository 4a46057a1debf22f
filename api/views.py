"""What clients see of a session: its variables by scope, its position, its wait, its messages."""

from collections.abc import Mapping
from typing import Any

import msgspec

from api.journal import usage_of
from api.schemas.calls import CallView, DebugCall, DebugInfo, UsageView
from api.schemas.events import EventView
from api.schemas.sessions import (
    CellView,
    ChoiceView,
    ColumnView,
    FieldView,
    FormView,
    Layer,
    MessageView,
    Position,
    Snapshot,
    VariableStore,
    WaitView,
)
from runtime.calls import ModelCall
from runtime.ports import ModelReply, Usage
from runtime.program import Program
from runtime.scopes import Scopes
from runtime.sheets import DrawnColumn, DrawnForm
from runtime.state import Cell, ExecutionStatus, State, Wait
from scripts.actions import Action, AiAsk, AiSay, Ask, Chat, Choose, Form, action_type, rounds_of
from scripts.model import Script
from scripts.values import Value, infer_type
from store.rows import CallRow, HappenedRow, MessageRow, TurnRow


def snapshot(
    program: Program, state: State, execution_status: ExecutionStatus, failed_at: tuple[str, str, str] | None
) -> Snapshot:
    """Where a turn left a session; `failed_at` is the place where the turn after it failed."""
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
        wait=wait_view(state.wait),
    )


def layer(cells: Mapping[str, Cell]) -> Layer:
    """The variables of one scope."""
    return {
        name: CellView(value=cell.value, type=cell.type, last_updated=cell.last_updated, source=cell.source)
        for name, cell in cells.items()
    }


def _globals(program: Program, state: State) -> Layer:
    """The user's global variables over the project's defaults."""
    defaults = {
        name: CellView(value=each.value, type=each.type or infer_type(each.value), last_updated=None, source="default")
        for name, each in program.global_names.items()
        if each.value is not None
    }
    return {**defaults, **layer(state.global_cells)}


def position(program: Program, state: State, failed_at: tuple[str, str, str] | None = None) -> Position:
    """Where a session stands, or where its last attempt at a turn failed."""
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


def wait_view(wait: Wait | None) -> WaitView | None:
    """What the session waits for."""
    if wait is None:
        return None
    return WaitView(
        kind=wait.kind,
        choices=[ChoiceView(key=choice.key, text=choice.text) for choice in wait.choices] or msgspec.UNSET,
        suggestion=wait.suggestion or msgspec.UNSET,
        form=_form_view(wait.form) if wait.form is not None else msgspec.UNSET,
    )


def _form_view(form: DrawnForm) -> FormView:
    fields = [
        FieldView(
            **_column(field),
            computed=field.computed,
            columns=[ColumnView(**_column(column)) for column in field.columns] or msgspec.UNSET,
        )
        for field in form.fields
    ]
    return FormView(id=form.id, title=form.title, fields=fields, errors=form.errors)


def _column(column: DrawnColumn) -> dict[str, Any]:
    """What fields and columns have in common; what the script does not say is left out."""
    optional = {
        "choices": list(column.choices) or None,
        "labels": column.labels or None,
        "placeholder": column.placeholder or None,
        "pattern": column.pattern,
        "min": column.min,
        "max": column.max,
    }
    return {
        "name": column.name,
        "label": column.label,
        "type": column.type,
        "required": column.required,
        "value": column.value,
    } | {key: value for key, value in optional.items() if value is not None}


def message_view(row: MessageRow, gaps: tuple[tuple[int, int], ...] = ()) -> MessageView:
    """A recorded message; one in a gap was taken out of the conversation."""
    return MessageView(
        message_id=row.message_id,
        number=row.seq,
        role="ai" if row.role == "assistant" else row.role,
        content=row.content,
        timestamp=row.created_at,
        action_id=row.action_id or "",
        metadata=row.metadata,
        removed=True if any(first <= row.seq <= last for first, last in gaps) else msgspec.UNSET,
        characters=row.characters,
    )


def said(row: TurnRow) -> list[MessageView]:
    """What the session said in a turn, in order."""
    return [message_view(message) for message in row.messages if message.role != "user"]


def event_views(row: TurnRow | HappenedRow) -> list[EventView]:
    """The events of a turn, with the messages and variable writes they stand for."""
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
    """A unit of memory that was called up, with what stood around it."""
    around = [{_camel(name): value for name, value in each.items()} for each in unit.get("around", ())]
    view = {_camel(name): value for name, value in unit.items()}
    return view | ({"around": around} if around else {})


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def debug_info(calls: tuple[ModelCall, ...]) -> DebugInfo:
    """The model calls of a turn."""
    return DebugInfo(model_calls=[_debug_call(call) for call in calls])


def _debug_call(call: ModelCall) -> DebugCall:
    reply = call.reply or ModelReply()
    return DebugCall(
        purpose=call.request.purpose,
        action_id=call.request.action_id,
        round=call.request.round,
        task=call.request.task,
        text=reply.text,
        values=reply.values,
        exit=reply.exit,
        raw=reply.raw,
        call_id=call.intent.call_id if call.intent is not None else None,
        model=call.intent.model if call.intent is not None else "",
        error=call.ended.error if call.ended is not None else "",
        reused=call.is_reused,
        usage=_usage_view(call.ended.usage) if call.ended is not None else None,
    )


def call_view(row: CallRow, *, debug: bool) -> CallView:
    """A recorded call of a model."""
    return CallView(
        call_id=row.call_id,
        turn=row.turn,
        number=row.number,
        purpose=row.purpose,
        action_id=row.action_id,
        round=row.round,
        model=row.model,
        started_at=row.started_at,
        ended_at=row.ended_at,
        outcome=row.outcome,
        error=row.error or "",
        used=row.used,
        usage=_usage_view(usage_of(row)),
        reply=row.reply if debug else msgspec.UNSET,
    )


def _usage_view(usage: Usage | None) -> UsageView | None:
    if usage is None:
        return None
    return UsageView(**msgspec.structs.asdict(usage) | {"failures": list(usage.failures)})


def script_outline(script: Script) -> dict[str, Any]:
    """The structure of a script in the shape of seed 004's `metadata.script`."""
    return {
        "session": {
            "session_id": script.id,
            "session_name": script.title,
            "phases": [
                {
                    "phase_id": phase.id,
                    "phase_name": phase.title,
                    "phase_goal": phase.goal,
                    "topics": [
                        {
                            "topic_id": topic.id,
                            "topic_name": topic.title,
                            "topic_goal": topic.goal,
                            "actions": [
                                {"action_id": action.id, "action_type": action_type(action)} for action in topic.actions
                            ],
                        }
                        for topic in phase.topics
                    ],
                }
                for phase in script.phases
            ],
        }
    }


def flat_variables(program: Program, state: State) -> Mapping[str, Value]:
    """Every variable with the value it has where the session stands."""
    return Scopes(program, state).flat()
