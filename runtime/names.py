"""What a name means at a point of a turn."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from runtime.events import HISTORY_MAX, Message
from runtime.recalling import Remembering, in_text
from runtime.scopes import Scopes
from scripts.members import SPEAKER_PARTS, Speaker
from scripts.memories import K_MAX, Recollections
from scripts.model import Role
from scripts.sandbox import MISSING, ExpressionFailed, said
from scripts.values import Value


class Sight(Remembering, Protocol):
    """What of a turn names can stand for."""

    scopes: Scopes

    @property
    def role(self) -> str:
        """Who speaks now."""

    def history(self) -> tuple[Message, ...]:
        """The last messages of the session, oldest first."""


class Names:
    """What a name means at this point of a turn: a loop's item, something of the runtime's, or a variable."""

    def __init__(self, run: Sight, given: Mapping[str, Value]) -> None:
        self._run = run
        self._given = given

    def value_of(self, name: str) -> object:
        """Its value; MISSING where it has none."""
        if name in self._given:
            return self._given[name]
        for frame in reversed(self._run.state.frames):
            if frame.home is not None:
                break  # what goes on around a call is out of the skill's sight, and of an interrupt's
            if frame.item_name == name and frame.items is not None:
                return frame.items[frame.passes]
        if name in _BUILTINS:
            return _BUILTINS[name](self._run)
        found = self._run.scopes.find(name)
        return MISSING if found is None or found[1] is None else found[1]


class _Variables(Mapping[str, object]):
    """``vars``: the variables by name, for names that are no words."""

    def __init__(self, run: Sight) -> None:
        self._run = run

    def __getitem__(self, name: str) -> object:
        found = self._run.scopes.find(name)
        if found is None or found[1] is None:
            raise KeyError(name)
        return found[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.scopes.flat())

    def __len__(self) -> int:
        return len(self._run.scopes.flat())


def _history_function(run: Sight) -> Callable[[int], list[Value]]:
    def history(n: int = 10) -> list[Value]:
        if not isinstance(n, int) or not 1 <= n <= HISTORY_MAX:
            raise ExpressionFailed(f"history takes a number from 1 to {HISTORY_MAX}")
        return [{"role": message.role, "content": message.content} for message in run.history()[-n:]]

    return history


def _recall_function(run: Sight) -> Callable[..., Recollections]:
    def recall(query: object, k: int | None = None) -> Recollections:
        if k is not None and (not isinstance(k, int) or not 1 <= k <= K_MAX):
            raise ExpressionFailed(f"recall takes a k from 1 to {K_MAX}")
        return in_text(run, said(query), k)

    return recall


def _speaker(roles: Mapping[str, Role], role: str) -> Speaker:
    """Who speaks; a role that the script does not describe goes by its id."""
    known = roles.get(role) or Role(id=role)
    parts = {part: getattr(known, part) for part in SPEAKER_PARTS}
    return Speaker(role, parts | {"name": known.name or role})


_BUILTINS: Mapping[str, Callable[[Sight], object]] = {
    "now": lambda run: run.now(),
    "today": lambda run: run.now().date(),
    "round": lambda run: run.state.progress.round if run.state.progress else 0,
    "user": lambda run: {"id": run.state.user_id},
    "role": lambda run: _speaker(run.program.roles, run.role),
    "history": _history_function,
    "recall": _recall_function,
    "vars": _Variables,
}
