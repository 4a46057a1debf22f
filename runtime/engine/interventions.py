"""Interventions: changes that an application makes to a session's state, besides sending messages."""

from msgspec.structs import replace

from runtime.migration.variables import account_of
from runtime.state import inputs
from runtime.state.events import Intervened
from runtime.state.inputs import Intervention
from runtime.state.scopes import WriteRefused
from runtime.state.state import HandOver, State, copy_of, restore_state
from runtime.turn import timing
from runtime.turn.context import TurnContext

_RETAINED = (
    "turn", "event_seq", "message_seq", "heard", "last_at", "spent", "global_cells", "exposed", "hand_over", "model"
)  # fmt: skip
"""The parts of a state that a rewind does not restore."""

OPERATOR = "operator"
"""The name, in the metadata of a message, of the person who wrote it in place of the script."""


def carry_out(run: TurnContext, intervention: Intervention) -> None:
    """Apply an intervention to the state; the engine ends the conversation. Raises InputRefused, LimitExceeded."""
    match intervention:
        case inputs.Pause():
            run.record(Intervened("pause"))
            run.state.status = "paused"
        case inputs.Resume():
            run.record(Intervened("resume"))
            run.state.status = "active"
            timing.count_from_now(run)
        case inputs.End():
            run.record(Intervened("end", reason=intervention.reason))
            run.state.status = "active"  # so that it can end
            run.state.hand_over = None
        case inputs.SetVariables():
            run.record(Intervened("set_variables", scope=intervention.scope))
            _set(run, intervention)
        case inputs.Rewind():
            _rewind(run, intervention)
        case inputs.Clear():
            _clear(run)
        case inputs.Append():
            first = run.state.message_seq + 1
            run.record(Intervened("append", first=first, last=first + len(intervention.messages) - 1))
            for each in intervention.messages:
                run.append(each.role, each.content, each.metadata)
        case inputs.TakeOver():
            run.record(Intervened("take_over", operator=intervention.operator))
            asked = run.state.hand_over or HandOver(run.now())
            run.state.hand_over = replace(asked, operator=intervention.operator)
        case inputs.Speak():
            number = run.state.message_seq + 1
            run.record(Intervened("speak", first=number, last=number, operator=intervention.operator))
            run.append("assistant", intervention.content, {OPERATOR: intervention.operator})
        case inputs.GiveBack():
            run.record(Intervened("give_back", operator=run.state.operator))
            run.state.hand_over = None
        case inputs.UseModel():
            run.record(Intervened("use_model", model=intervention.model))
            run.state.model = intervention.model


def _set(run: TurnContext, intervention: inputs.SetVariables) -> None:
    frames = run.state.frames
    for name, value in intervention.values.items():
        if intervention.scope is None and not run.scopes.is_known(name):
            run.state.frames = []  # a running skill or interrupt hides the variables of its topic and phase
        try:
            run.assign_in(intervention.scope or run.scopes.address(name), name, value, "api")
        except WriteRefused as refused:
            raise inputs.InputRefused(str(refused), "variables") from refused
        finally:
            run.state.frames = frames


def _rewind(run: TurnContext, intervention: inputs.Rewind) -> None:
    now, state = run.state, _rewound(run.state, intervention.state)
    last = now.message_seq if now.message_seq > intervention.state.message_seq else None
    first = None if last is None else intervention.state.message_seq + 1
    account = account_of(now, intervention.state, "api")
    restore_state(now, state)
    timing.count_from_now(run)  # the user can answer again
    run.record(Intervened("rewind", turn=intervention.state.turn, first=first, last=last))
    for body in account:
        run.record(body)


def _rewound(now: State, before: State) -> State:
    """Return an earlier state without the messages since then, with the current numbers of turn, event and message,
    and the current usage.

    The user's global variables are not restored, because other sessions may have used them. Neither are the arms of
    experiments. A person who has taken the session over keeps it, and the choice of a model stays.
    """
    since = (before.message_seq + 1, now.message_seq)
    gaps = before.gaps if since[0] > since[1] else (*before.gaps, since)
    current = copy_of(now)
    retained = {name: getattr(current, name) for name in _RETAINED}
    return replace(copy_of(before), **retained, gaps=gaps)


def _clear(run: TurnContext) -> None:
    last = run.state.message_seq
    run.record(Intervened("clear", first=1 if last else None, last=last or None))
    run.state.gaps, run.state.context = ((1, last),) if last else (), None
    if run.state.progress is not None:
        run.state.progress = replace(run.state.progress, replies=[])
    for frame in run.state.frames:
        if frame.held is not None and frame.held.progress is not None:
            frame.held = replace(frame.held, progress=replace(frame.held.progress, replies=[]))
