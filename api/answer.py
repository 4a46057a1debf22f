"""What came of a turn."""

from msgspec import Struct

from runtime.calls import ModelCall
from runtime.program import Program
from runtime.state import State
from store.rows import SessionRow, TurnRow


class Answer(Struct, frozen=True):
    """A session as a turn left it, with the record of that turn."""

    session: SessionRow
    program: Program
    state: State
    row: TurnRow
    model_calls: tuple[ModelCall, ...] = ()
