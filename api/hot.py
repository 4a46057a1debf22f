"""A session in memory, as the record has it."""

import itertools
from collections import OrderedDict
from datetime import datetime

from msgspec import Struct

from api.journal import Attempts
from runtime.context.chosen import newest
from runtime.engine import Turn
from runtime.events import HISTORY_MAX, Message
from runtime.program import Program
from runtime.state import ExecutionStatus, State
from store.rows import SessionRow, TurnRow

KEYS_MAX = 200  # idempotency keys kept with a hot session; older ones are looked up in the record


class Failure(Struct, frozen=True):
    """The last attempt at a turn, if it failed."""

    code: str
    message: str
    place: tuple[str, str, str]


class Hot:
    """A session with its program, its state and what was said last."""

    def __init__(
        self,
        session: SessionRow,
        program: Program,
        state: State,
        history: tuple[Message, ...],
        history_max: int = HISTORY_MAX,
    ) -> None:
        self.session = session
        self.program = program
        self.state = state
        self.history = history
        self.history_max = history_max  # messages; what its context strategies look at is among them
        self.updated_at: datetime = session.created_at
        self.failure: Failure | None = None
        self.keys: OrderedDict[str, None] = OrderedDict()  # of the last requests, in their order
        self.knows_all_keys = False
        self.attempts = Attempts()  # at the next turn

    @property
    def execution_status(self) -> ExecutionStatus:
        """What the session is doing."""
        return "error" if self.failure is not None else self.state.execution_status

    @property
    def said_last(self) -> str:
        """What the session has said since the user's last message: the question it stands at."""
        said = itertools.takewhile(lambda message: message.role == "assistant", reversed(self.history))
        return "\n\n".join(reversed([message.content for message in said if message.content]))

    def follow(self, row: TurnRow, turn: Turn) -> None:
        """Takes over what a committed turn left."""
        self.state = turn.state
        self.history = newest((*self.history, *turn.messages), self.history_max)
        self.updated_at = row.finished_at
        self.failure = None
        if turn.state.begun:
            self.attempts = Attempts()
        if row.idempotency_key is not None:
            self.keys[row.idempotency_key] = None
            if len(self.keys) > KEYS_MAX:
                self.keys.popitem(last=False)
                self.knows_all_keys = False
