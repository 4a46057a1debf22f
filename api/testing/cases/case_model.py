"""The model of a case: one conversation with a script, its inputs and its expectations."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from runtime.memory.units import MemoryUnit
from runtime.state.ports import Model
from runtime.state.program import Program
from runtime.state.state import ExecutionStatus, WaitKind
from runtime.tools.examples import ToolReplies
from scripts.expressions.values import Value, text_of
from scripts.model.base import Location
from scripts.model.diagnostics import Problem
from scripts.model.moments import Duration
from scripts.model.script import Locale, Scope
from scripts.parse.folder import CASE_SUFFIX
from scripts.parse.read_script import Reading
from scripts.yaml.parser import Mapping as MappingTree
from scripts.yaml.parser import Sequence as SequenceTree
from scripts.yaml.parser import Tree

Keys: TypeAlias = tuple[str | int, ...]
"""The path of a part of a case: keys and list positions."""

NOON = "2026-01-31T12:00:00Z"  # a Saturday; the time of a case without `now`


class CaseEvent(Struct, frozen=True):
    """An event that an `emit` sends to the application; omitted data is not compared."""

    event: str
    data: Mapping[str, Value] | None = None


class CaseTurn(Struct, frozen=True):
    """The input of a turn (none in the first) and its expectations; omitted fields are not compared."""

    say: str | None = None
    choose: str | None = None  # the key of a choice, as a button sends it
    form: Mapping[str, Value] | None = None  # the values of a form by field
    time: Duration | None = field(name="pass", default=None)  # the time that passes; timers that are due fire
    expect: tuple[str, ...] | None = None  # a glob pattern for each message
    not_said: tuple[str, ...] = ()  # patterns that no message may match
    show: tuple[Mapping[str, str], ...] | None = None  # patterns for image, url or caption of each media message
    emit: tuple[CaseEvent, ...] | None = None
    skipped: tuple[str, ...] | None = None  # the ids of phases, topics and actions whose `when` was false
    wait: WaitKind | None = None
    choices: tuple[Value, ...] | None = None  # the key of each choice offered, or {key: pattern of its text}
    suggestion: str | None = None
    variables: Mapping[str, Value] = {}  # visible values after the turn; null: not set
    position: str | None = field(name="at", default=None)  # phase/topic/action

    @property
    def input_text(self) -> str:
        """Return the input as text: ``say: Ana``, or ``the beginning`` for the first turn."""
        if self.time is not None:
            return f"pass: {self.time.text}"
        if self.form is not None:
            return f"form: {text_of(dict(self.form))}"
        if self.choose is not None:
            return f"choose: {self.choose}"
        return "the beginning" if self.say is None else f"say: {self.say}"


class CaseScopes(Struct, frozen=True):
    """Expected variables by scope at the end."""

    global_scope: Mapping[str, Value] = field(name="global", default={})
    session: Mapping[str, Value] = {}
    phase: Mapping[str, Value] = {}
    topic: Mapping[str, Value] = {}

    def by_scope(self) -> dict[Scope, Mapping[str, Value]]:
        """Return the expected variables of each scope."""
        return {"global": self.global_scope, "session": self.session, "phase": self.phase, "topic": self.topic}


class CaseEnd(Struct, frozen=True):
    """The expected end of the session; only the named variables are compared, null means not set."""

    status: ExecutionStatus | None = "completed"
    reason: str | None = None
    outcome: str | None = None
    variables: Mapping[str, Value] = {}
    scopes: CaseScopes = CaseScopes()


class CaseMemory(Struct, frozen=True):
    """A unit in the user's memory before the conversation; `time` is its time, empty: a day before."""

    text: str
    source: str = "user"
    about: str = ""
    time: str = ""
    metadata: Mapping[str, Value] = {}


class Case(Struct, frozen=True):
    """One conversation.

    With `after`, it is the same user's next conversation after another case of the file, with the memory and global
    variables of that one.
    """

    name: str
    turns: tuple[CaseTurn, ...]
    after: str = ""
    memories: tuple[CaseMemory, ...] = ()
    end: CaseEnd = CaseEnd()
    seed: int = 0
    now: str = NOON
    timezone: str = ""  # of the session
    locale: Locale | None = None
    variables: Mapping[str, Value] = {}
    replies: Mapping[str, tuple[Value, ...]] = {}  # replies of the model by action id
    tools: Mapping[str, Value] = {}  # replies of tools by name; other tools reply with their examples
    model: str | None = None  # or the path of a file with replies
    warnings: tuple[str, ...] | None = ()  # the codes of all of them, in order; null: not compared


class CaseFile(Struct, frozen=True):
    """Cases for one script; `script` is its path relative to the file."""

    script: str
    cases: tuple[Case, ...]


class PreparedScript(Struct, frozen=True):
    """A script without errors, ready to run."""

    path: Path
    reading: Reading
    program: Program


class FoundCase(Struct, frozen=True):
    """A case with its position in a file, and everything that it needs to run."""

    file: str
    case: Case
    script: PreparedScript
    model: Model
    now: datetime
    tree: Tree
    cassette: Path | None = None  # the file with the model's replies
    earlier: "FoundCase | None" = None  # the case named by `after`
    memories: tuple[MemoryUnit, ...] = ()
    tools: ToolReplies = {}

    def line(self, *keys: str | int) -> int:
        """Return the line of a part of the case, or of the nearest enclosing part in the file."""
        return place(self.tree, *keys).line

    def __str__(self) -> str:
        return f"{Path(self.file).name.removesuffix(CASE_SUFFIX)}: {self.case.name}"


class CaseReading(Struct, frozen=True):
    """The result of reading a case file; `files` are all files that it depends on, readable or not."""

    file: str
    cases: tuple[FoundCase, ...]
    problems: tuple[Problem, ...]
    text: str = ""
    files: frozenset[Path] = frozenset()


def place(tree: Tree, *keys: str | int) -> Location:
    """Return the location of a part of a tree, or of the nearest enclosing part in the file."""
    return _part(tree, *keys).at


def key_place(tree: Tree, *keys: str | int) -> Location:
    """Return the location of the last key, or of the part that would contain it."""
    holder = _part(tree, *keys[:-1])
    if isinstance(holder, MappingTree):
        return next((key.at for key, _ in holder.pairs if key.text == keys[-1]), holder.at)
    return holder.at


def _part(tree: Tree, *keys: str | int) -> Tree:
    for key in keys:
        inner: Tree | None = None
        if isinstance(tree, MappingTree):
            inner = tree.get(str(key))
        elif isinstance(tree, SequenceTree) and isinstance(key, int) and key < len(tree.items):
            inner = tree.items[key]
        if inner is None:
            break
        tree = inner
    return tree
