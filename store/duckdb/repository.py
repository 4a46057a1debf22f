"""What all repositories over DuckDB share: a method of a repository runs one function with a cursor, in a thread."""

from collections.abc import Callable, Coroutine
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from store.duckdb.fetch import Cursor
from store.duckdb.readers import Readers
from store.duckdb.writer import Changed, Writer
from store.interface.errors import StoreReadOnly

P = ParamSpec("P")
T = TypeVar("T")


class Repository:
    """A repository over the reading threads and the writing thread; a read-only database has no writer."""

    def __init__(self, readers: Readers, writer: Writer | None) -> None:
        self._readers = readers
        self._writer_or_none = writer

    @cached_property
    def _writer(self) -> Writer:
        """The writing thread. Raises StoreReadOnly."""
        if self._writer_or_none is None:
            raise StoreReadOnly("the database is open read-only")
        return self._writer_or_none


_Statements: TypeAlias = Callable[Concatenate[Cursor, P], T]
_Method: TypeAlias = Callable[Concatenate[Repository, P], Coroutine[Any, Any, T]]


def reads(function: _Statements[P, T]) -> _Method[P, T]:
    """Return the method that runs `function` in a reading thread. Raises StoreBusy, ReadTimedOut, StoreUnavailable."""

    @wraps(function)
    async def method(self: Repository, /, *args: P.args, **options: P.kwargs) -> T:
        return await self._readers.read(lambda cursor: function(cursor, *args, **options))

    return method


def reads_durable(function: _Statements[P, T | None]) -> _Method[P, T | None]:
    """Return the method that runs `function` in a reading thread and returns what it found once that is on disk.

    For results that repeat the acknowledgement of a write: a reader sees a commit before its sync, which may fail.
    Raises what `reads` raises.
    """

    @wraps(function)
    async def method(self: Repository, /, *args: P.args, **options: P.kwargs) -> T | None:
        found = await self._readers.read(lambda cursor: function(cursor, *args, **options))
        if found is not None and self._writer_or_none is not None:
            await self._writer_or_none.ensure_durable()
        return found

    return method


def writes(
    function: _Statements[P, T], changed: Callable[Concatenate[T, P], Changed] = lambda *_, **__: Changed()
) -> _Method[P, T]:
    """Return the method that runs `function` in the writing thread and returns after its transaction is on disk.

    `changed` returns from the result and the arguments what the caches must forget.
    Raises StoreBusy, StoreUnavailable, StoreReadOnly, and what `function` raises.
    """

    @wraps(function)
    async def method(self: Repository, /, *args: P.args, **options: P.kwargs) -> T:
        return await self._writer.run(
            lambda cursor: function(cursor, *args, **options), lambda result: changed(result, *args, **options)
        )

    return method
