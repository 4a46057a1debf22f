"""Copies of a state to work on, and the way back to one."""

import msgspec

from runtime.state import Progress, State


def copy_of(state: State) -> State:
    """A state to work on, so that a turn that fails leaves the one it began with untouched."""
    return msgspec.structs.replace(
        state,
        frames=[msgspec.structs.replace(frame, cells=dict(frame.cells)) for frame in state.frames],
        progress=own_copy(state.progress),
        global_cells=dict(state.global_cells),
        session_cells=dict(state.session_cells),
        phase_cells=dict(state.phase_cells),
        watches=dict(state.watches),
        topic_cells=dict(state.topic_cells),
        visits=dict(state.visits),
        exposed=dict(state.exposed),
    )


def own_copy(progress: Progress | None) -> Progress | None:
    """The same progress, free to be changed."""
    if progress is None:
        return None
    return msgspec.structs.replace(
        progress,
        values=dict(progress.values),
        replies=list(progress.replies),
        asked=dict(progress.asked),
        astray=dict(progress.astray),
    )


def take_back(state: State, earlier: State) -> None:
    """Makes a state what an earlier one is, but for what was spent meanwhile. `earlier` is used up."""
    spent = state.spent
    for name in state.__struct_fields__:
        setattr(state, name, getattr(earlier, name))
    state.spent = spent
