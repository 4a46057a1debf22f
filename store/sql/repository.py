"""What all repositories share: a method of a repository runs one function with a connection, in a thread."""

from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from store.interface.admission import SessionId
from store.interface.global_writes import UserId
from store.sql.connection import Connection

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=Connection)
C_co = TypeVar("C_co", bound=Connection, covariant=True)


class ChangedIds(NamedTuple):
    """What a write changed that an engine may have cached."""

    sessions: Iterable[SessionId] = ()
    """The sessions that were deleted or replaced."""
    users: Iterable[UserId] = ()
    """The users whose variables were set or deleted."""


class Engine(Protocol[C_co]):
    """Runs functions with a connection in threads, outside the event loop."""

    async def read(self, work: Callable[[C_co], T]) -> T:
        """Run a function that reads. Raises StoreBusy, ReadTimedOut, StoreUnavailable."""

    async def read_durable(self, work: Callable[[C_co], T | None]) -> T | None:
        """Run a function that reads; return what it finds once that is on disk.

        For results that repeat the acknowledgement of a write.
        """

    async def write(self, work: Callable[[C_co], T], changed: Callable[[T], ChangedIds] = lambda _: ChangedIds()) -> T:
        """Run a function in a transaction, as if no other one ran meanwhile; return its result after it is on disk.

        The function may run again, if another transaction prevented it. Raises StoreBusy, StoreUnavailable,
        StoreReadOnly, and what the function raises.
        """


class Repository:
    """A repository over an engine."""

    def __init__(self, engine: Engine[Any]) -> None:
        self._engine = engine


_Statements: TypeAlias = Callable[Concatenate[C, P], T]
_Method: TypeAlias = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]


def reads(function: _Statements[C, P, T]) -> _Method[P, T]:
    """Return the method that runs `function` to read."""

    @wraps(function)
    async def method(self: Repository, /, *args: P.args, **options: P.kwargs) -> T:
        return await self._engine.read(lambda connection: function(connection, *args, **options))

    return method


def reads_durable(function: _Statements[C, P, T | None]) -> _Method[P, T | None]:
    """Return the method that runs `function` to read, and returns what it finds once that is on disk."""

    @wraps(function)
    async def method(self: Repository, /, *args: P.args, **options: P.kwargs) -> T | None:
        return await self._engine.read_durable(lambda connection: function(connection, *args, **options))

    return method


def writes(
    function: _Statements[C, P, T], changed: Callable[Concatenate[T, P], ChangedIds] = lambda *_, **__: ChangedIds()
) -> _Method[P, T]:
    """Return the method that runs `function` in a transaction.

    `changed` returns from the result and the arguments what the caches must forget.
    """

    @wraps(function)
    async def method(self: Repository, /, *args: P.args, **options: P.kwargs) -> T:
        return await self._engine.write(
            lambda connection: function(connection, *args, **options), lambda result: changed(result, *args, **options)
        )

    return method
