"""Whether a state that came from outside is one that its script can go on from.

A state that the engine saved is sound. One that was written or changed by hand may stand at a place that is not there,
or hold what no variable can hold; a session is never begun from such a one.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from runtime.context.memory import ContextMemory
from runtime.program import PlaceLost, Program
from runtime.scopes import CELLS_MAX
from runtime.state import Cell, Frame, Progress, State, Wait
from scripts.actions import Action, Form
from scripts.nodes import ID_CHARS_MAX
from scripts.values import INTEGER_ABS_MAX, Value, ValueRefused, bounded, coerce, is_unicode, shorten

WAIT_BYTES_MAX = 1_000_000
FRAMES_MAX = 1_000  # blocks and calls within one another


class Unsound(ValueError):
    """A state that its script cannot go on from; the message says what is wrong with it."""


def check(program: Program, state: State) -> None:
    """Raises Unsound for a state that the script cannot go on from."""
    _check_numbers(state)
    _check_cells(state)
    for experiment, arm in state.exposed.items():
        if experiment not in program.experiments or len(arm) > ID_CHARS_MAX or not is_unicode(arm):
            raise Unsound(f"it met an experiment that the script does not have: {shorten(experiment)}")
    if not state.begun:
        if state.frames or state.phase or state.topic or state.wait is not None or state.status != "active":
            raise Unsound("the session has not begun, and yet it stands somewhere")
        return
    _check_gaps(state)
    if state.status == "completed":
        if state.frames or state.phase or state.topic or state.wait is not None:
            raise Unsound("the conversation is over, and yet it stands somewhere")
        return
    try:
        _check_place(program, state)
    except PlaceLost as error:
        raise Unsound(str(error)) from error


def _check_numbers(state: State) -> None:
    context = state.context or ContextMemory()
    counts = [*_counts(state), *_counts(context), *_counts(state.spent), *state.visits.values()]
    counts += [watch.acted for watch in state.watches.values()]
    if any(not -1 <= count <= INTEGER_ABS_MAX for count in counts) or not 0 <= state.spent.cost < float("inf"):
        raise Unsound("a number of it is out of range")
    if max(context.after, context.summary_to, context.memo_to) > state.message_seq:
        raise Unsound("its context is about messages that were not said")


def _counts(of: Struct) -> list[int]:
    """Its whole numbers; none is below -1, which stands for none yet."""
    found = [getattr(of, name) for name in of.__struct_fields__]
    return [each for each in found if isinstance(each, int) and not isinstance(each, bool)]


def _check_gaps(state: State) -> None:
    last = 0
    for first, end in state.gaps:
        if not last < first <= end <= state.message_seq:
            raise Unsound("the numbers of messages that were taken out are not in order")
        last = end


def _check_cells(state: State) -> None:
    layers = [state.global_cells, state.session_cells, state.phase_cells, state.topic_cells]
    for cells in (*layers, *(frame.cells for frame in state.frames)):
        if len(cells) > CELLS_MAX:
            raise Unsound(f"more than {CELLS_MAX:,} variables in one scope")
        for name, cell in cells.items():
            _check_cell(name, cell)
    values: list[Value] = [dict(state.start_variables), dict(state.context.memo) if state.context is not None else {}]
    for progress in _progresses(state):
        values += [progress.values, list(progress.replies)]
        if any(not 0 <= count <= INTEGER_ABS_MAX for count in (progress.round, progress.visit)):
            raise Unsound("a number of it is out of range")
    for frame in state.frames:
        values.append(frame.items)
        if not 0 <= frame.passes <= INTEGER_ABS_MAX:
            raise Unsound("a number of it is out of range")
    for value in values:
        _check_value("a value of it", value)


def _progresses(state: State) -> Iterable[Progress]:
    held = [frame.held.progress for frame in state.frames if frame.held is not None]
    return [each for each in (state.progress, *held) if each is not None]


def _check_cell(name: str, cell: Cell) -> None:
    if not name or len(name) > ID_CHARS_MAX or not is_unicode(name):
        raise Unsound("a variable has no proper name")
    _check_value(f"the variable {name}", cell.value)
    if cell.last_updated.tzinfo is None:
        raise Unsound(f"the time of the variable {name} has no time zone")
    if cell.value is None or cell.type == "null":
        return
    try:
        same = coerce(cell.value, cell.type) == cell.value
    except ValueRefused as error:
        raise Unsound(f"the variable {name}: {error}") from error
    if not same:
        raise Unsound(f"the variable {name} is no {cell.type}")


def _check_value(what: str, value: Value) -> None:
    try:
        bounded(value)
    except ValueRefused as error:
        raise Unsound(f"{what}: {error}") from error


def _check_place(program: Program, state: State) -> None:
    """Raises Unsound or PlaceLost."""
    if state.wait is None or not state.frames:
        raise Unsound("the conversation is not over, and yet it waits for nothing")
    if len(state.frames) > FRAMES_MAX:
        raise Unsound(f"more than {FRAMES_MAX:,} blocks within one another")
    program.topic(state.phase, state.topic)
    for role in (state.ai_role, state.human_role):
        if role and role not in program.roles:
            raise Unsound(f"the script has no role {role}")
    for depth, frame in enumerate(state.frames, start=1):
        action = _action_of(program, state, depth)
        if frame.held is not None:
            below = program.action(*state.home(depth - 1), state.frames[depth - 2].action)
            _check_wait(program, below, frame.held.wait)
        if depth == len(state.frames):
            _check_wait(program, action, state.wait)


def _action_of(program: Program, state: State, depth: int) -> Action:
    """The action a frame stands at, if that is in the list that the frame goes through."""
    frame = state.frames[depth - 1]
    home = state.home(depth)
    if frame.detector or (frame.interrupt and (depth == 1 or frame.held is None)):
        raise Unsound("it stands in an action that never waits")
    if (depth == 1) != _is_topics(frame):
        raise Unsound("its blocks do not stand within one another")
    around = state.frames[depth - 2].action if depth > 1 else ""
    if frame.block != around and not frame.interrupt:
        raise Unsound(f"it goes through the block {frame.block} while it stands at {around}")
    if frame.home is not None:
        _check_home(program, frame)
    place = (*home, "", "") if frame.home is not None else (*home, frame.block, frame.arm)
    if frame.action not in {each.id for each in program.actions(place)}:
        raise PlaceLost(f"the script has no action {'/'.join(filter(None, (*home, frame.block, frame.action)))} there")
    return program.action(*home, frame.action)


def _is_topics(frame: Frame) -> bool:
    return not (frame.block or frame.arm or frame.skill or frame.interrupt)


def _check_home(program: Program, frame: Frame) -> None:
    """Raises PlaceLost."""
    if frame.skill:
        program.skill(frame.skill)
    else:
        program.interrupt(frame.interrupt)


def _check_wait(program: Program, action: Action, wait: Wait) -> None:
    """Raises Unsound, or PlaceLost for a form that the script does not have."""
    if wait.kind == "form":
        if not isinstance(action, Form) or wait.form is None or program.form(action.sheet).id != wait.form.id:
            raise Unsound(f"the action {action.id} does not wait for this form")
    elif isinstance(action, Form) and not wait.begins:
        raise Unsound(f"the action {action.id} waits for a form")
    if len(msgspec.json.encode(wait)) > WAIT_BYTES_MAX:
        raise Unsound("what it waits for is too large")
