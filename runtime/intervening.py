"""Interventions: what an application does to a session besides talking to it, carried out on its state."""

import msgspec

from runtime.copies import take_back
from runtime.events import Intervened
from runtime.inputs import Append, Clear, End, InputRefused, Intervention, Pause, Resume, Rewind, SetVariables
from runtime.run import Run
from runtime.scopes import WriteRefused
from runtime.way_back import account_of, cleared, rewound
from scripts.model import Scope


def carry_out(run: Run, given: Intervention) -> None:
    """Does it, but for the end of the conversation, which is the engine's. Raises InputRefused, LimitExceeded."""
    match given:
        case Pause():
            run.record(Intervened("pause"))
            run.state.status = "paused"
        case Resume():
            run.record(Intervened("resume"))
            run.state.status = "active"
        case End():
            run.record(Intervened("end", reason=given.reason))
            run.state.status = "active"  # so that it can end
        case SetVariables():
            run.record(Intervened("set_variables", scope=given.scope))
            _set(run, given)
        case Rewind():
            _rewind(run, given)
        case Clear():
            _clear(run)
        case Append():
            first = run.state.message_seq + 1
            run.record(Intervened("append", first=first, last=first + len(given.messages) - 1))
            for each in given.messages:
                run.append(each.role, each.content, each.metadata)


def _set(run: Run, given: SetVariables) -> None:
    for name, value in given.values.items():
        try:
            run.assign_in(given.scope or _scope_of(run, name), name, value, "api")
        except WriteRefused as refused:
            raise InputRefused(str(refused)) from refused


def _scope_of(run: Run, name: str) -> Scope:
    """Where a name is declared or stands already, else the session's: an application knows no topics."""
    if name in run.scopes.declarations():
        return run.scopes.target(name)
    known = run.scopes.cell(name)
    return known[0] if known is not None else "session"


def _rewind(run: Run, given: Rewind) -> None:
    now, state = run.state, rewound(run.state, given.state)
    last = now.message_seq if now.message_seq > given.state.message_seq else None
    first = None if last is None else given.state.message_seq + 1
    account = account_of(now, given.state, "api")
    take_back(now, state)
    run.record(Intervened("rewind", turn=given.state.turn, first=first, last=last))
    for body in account:
        run.record(body)


def _clear(run: Run) -> None:
    last = run.state.message_seq
    run.record(Intervened("clear", first=1 if last else None, last=last or None))
    take_back(run.state, cleared(run.state))
    if run.state.progress is not None:
        run.state.progress = msgspec.structs.replace(run.state.progress, replies=[])
