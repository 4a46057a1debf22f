"""What a case is: one conversation with a script, what is put in and what must come out."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from runtime.memory.units import MemoryUnit
from runtime.ports import Model
from runtime.program import Program
from runtime.state import ExecutionStatus, WaitKind
from scripts.diagnostics import Problem
from scripts.folder import CASE_SUFFIX
from scripts.meaning import text_of
from scripts.model import Locale
from scripts.nodes import Location
from scripts.parse import Reading
from scripts.source import Mapping as MappingTree
from scripts.source import Sequence as SequenceTree
from scripts.source import Tree
from scripts.values import Value

Keys: TypeAlias = tuple[str | int, ...]
"""Where a part of a case is written: the keys and positions that lead to it."""

NOON = "2026-01-31T12:00:00Z"  # a Saturday; what time it is in a case that does not say


class CaseEvent(Struct, frozen=True):
    """What an `emit` tells the application; data that is not given is not compared."""

    event: str
    data: Mapping[str, Value] | None = None


class CaseTurn(Struct, frozen=True):
    """What is put in (nothing in the first turn) and what comes of it; what is not given is not compared."""

    say: str | None = None
    choose: str | None = None  # a choice by its key, as a button sends it
    form: Mapping[str, Value] | None = None  # a filled form, values by field
    expect: tuple[str, ...] | None = None  # a glob pattern for each message
    not_said: tuple[str, ...] = ()  # patterns that no message may match
    show: tuple[Mapping[str, str], ...] | None = None  # patterns for image, url or caption of each media message
    emit: tuple[CaseEvent, ...] | None = None
    skipped: tuple[str, ...] | None = None  # the ids of phases, topics and actions whose `when` did not hold
    wait: WaitKind | None = None
    choices: tuple[Value, ...] | None = None  # the key of each choice offered, or {key: pattern of its text}
    suggestion: str | None = None
    variables: Mapping[str, Value] = {}  # as they can be seen after the turn; null: not set
    position: str | None = field(name="at", default=None)  # phase/topic/action

    @property
    def given(self) -> str:
        """``say: Ana``, or nothing for the first turn."""
        if self.form is not None:
            return f"form: {text_of(dict(self.form))}"
        if self.choose is not None:
            return f"choose: {self.choose}"
        return "the beginning" if self.say is None else f"say: {self.say}"


class CaseScopes(Struct, frozen=True):
    """Variables as they are in each scope at the end."""

    global_scope: Mapping[str, Value] = field(name="global", default={})
    session: Mapping[str, Value] = {}
    phase: Mapping[str, Value] = {}
    topic: Mapping[str, Value] = {}


class CaseEnd(Struct, frozen=True):
    """How the session ends up; of the variables those named, null meaning that there is none."""

    status: ExecutionStatus | None = "completed"
    reason: str | None = None
    variables: Mapping[str, Value] = {}
    scopes: CaseScopes = CaseScopes()


class CaseMemory(Struct, frozen=True):
    """Something the user's memory holds before the conversation; `time` is when it was said, empty: a day before."""

    text: str
    source: str = "user"
    about: str = ""
    time: str = ""
    metadata: Mapping[str, Value] = {}


class Case(Struct, frozen=True):
    """One conversation. One `after` another of the file is the same user's next: with what that left in memory and in
    global variables.
    """

    name: str
    turns: tuple[CaseTurn, ...]
    after: str = ""
    memories: tuple[CaseMemory, ...] = ()
    end: CaseEnd = CaseEnd()
    seed: int = 0
    now: str = NOON
    locale: Locale | None = None
    variables: Mapping[str, Value] = {}
    replies: Mapping[str, tuple[Value, ...]] = {}  # what the model says, by action id
    model: str | None = None  # or a file of such replies
    warnings: tuple[str, ...] | None = ()  # the codes of all of them, in order; null: not compared


class CaseFile(Struct, frozen=True):
    """Conversations with one script; `script` is its path seen from the file."""

    script: str
    cases: tuple[Case, ...]


class Prepared(Struct, frozen=True):
    """A script that can be run."""

    path: Path
    reading: Reading
    program: Program


class FoundCase(Struct, frozen=True):
    """A case, where it stands, and everything it needs to be played."""

    file: str
    case: Case
    script: Prepared
    model: Model
    now: datetime
    tree: Tree
    cassette: Path | None = None  # the file its model's replies come from
    earlier: "FoundCase | None" = None  # the one it comes after
    memories: tuple[MemoryUnit, ...] = ()

    def line(self, *keys: str | int) -> int:
        """The line of a part of the case, or of the nearest part around it that was written."""
        return place(self.tree, *keys).line

    def __str__(self) -> str:
        return f"{Path(self.file).name.removesuffix(CASE_SUFFIX)}: {self.case.name}"


class CaseReading(Struct, frozen=True):
    """What came of reading a case file; `files` are all it depends on, whether they could be read or not."""

    file: str
    cases: tuple[FoundCase, ...]
    problems: tuple[Problem, ...]
    files: frozenset[Path] = frozenset()
    text: str = ""


def place(tree: Tree, *keys: str | int) -> Location:
    """Where a part of a tree stands, or the nearest part around it that was written."""
    return _part(tree, *keys).at


def key_place(tree: Tree, *keys: str | int) -> Location:
    """Where the last of some keys is written, or the part it would stand in."""
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
