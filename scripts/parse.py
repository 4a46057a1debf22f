"""A script's text, in whatever form, as a checked Script: the one way in."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from scripts.check import check_script
from scripts.diagnostics import Problem, Problems
from scripts.dialects import native, session_form
from scripts.model import (
    Action,
    Choose,
    Declaration,
    Foreach,
    If,
    Location,
    Node,
    Repeat,
    Script,
    Topic,
    action_type,
    walk,
)
from scripts.reader import Reader
from scripts.source import Mapping as MappingTree
from scripts.source import Scalar, read_tree
from scripts.source import Sequence as SequenceTree

Mode: TypeAlias = Literal["strict", "compat"]
SIDE_FILES_MAX = 20
FILE_BYTES_MAX = 4_000_000


class Source(Struct, frozen=True):
    """A script as it was written: its text and the side files named in `use`, by name."""

    text: str
    file: str = ""
    side_files: Mapping[str, str] = {}

    @property
    def digest(self) -> str:
        """SHA-256 of everything that was written; a session is pinned to it."""
        parts = msgspec.json.encode([self.text, sorted(self.side_files.items())])
        return hashlib.sha256(parts).hexdigest()


class Reading(Struct, frozen=True):
    """What came of reading a source: the script, unless an error keeps it from being run, and every problem."""

    source: Source
    script: Script | None
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that keep the script from being run."""
        return tuple(problem for problem in self.problems if problem.severity == "error")


class FileUnreadable(Exception):
    """A script file that cannot be opened or is no text; the message names file and reason."""


def read_file(path: Path) -> Source:
    """A script file with the side files it uses, which lie in its folder or below. Raises FileUnreadable."""
    text = _file_text(path)
    side_files = {}
    for name in _used(text)[:SIDE_FILES_MAX]:
        if _is_beside(path.parent, name):
            side_files[name] = _file_text(path.parent / name)
    return Source(text, str(path), side_files)


def _file_text(path: Path) -> str:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise FileUnreadable(f"{path}: larger than {FILE_BYTES_MAX:,} bytes")
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise FileUnreadable(f"{path}: {error.strerror or 'cannot be read'}") from error
    except UnicodeDecodeError as error:
        raise FileUnreadable(f"{path}: byte {error.start} is not UTF-8 text") from error


def _is_beside(folder: Path, name: str) -> bool:
    """Whether a name is that of a file in the folder or below, also when links are followed."""
    side = folder / name
    try:
        return not _leaves_folder(name) and side.is_file() and side.resolve().is_relative_to(folder.resolve())
    except OSError:  # longer than the file system takes
        return False


def _leaves_folder(name: str) -> bool:
    return PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts


def _used(text: str) -> list[str]:
    tree = read_tree(text, Problems())
    session = tree.get("session") if isinstance(tree, MappingTree) else None
    holder = session if isinstance(session, MappingTree) else tree
    used = holder.get("use") if isinstance(holder, MappingTree) else None
    if isinstance(used, Scalar):
        return [used.text]
    items = used.items if isinstance(used, SequenceTree) else ()
    return [item.text for item in items if isinstance(item, Scalar)]


def is_script(source: Source) -> bool:
    """Whether a source is meant to be a script; side files and other YAML are not. Unreadable YAML counts as one."""
    tree = read_tree(source.text, Problems())
    if not isinstance(tree, MappingTree):
        return tree is None
    return native.recognises(tree) or session_form.recognises(tree)


def read_script(source: Source, mode: Mode = "compat") -> Reading:
    """Reads and checks a source. `compat` turns the older forms' older and unknown keys into warnings."""
    problems = Problems(source.file)
    script = _read(source, problems, mode)
    if script is not None:
        script = msgspec.structs.replace(script, globals=_globals(script, source, problems))
        script = _with_ids(script, problems)
        check_script(script, problems)
    return Reading(source, None if problems.fatal else script, problems.sorted())


def _read(source: Source, problems: Problems, mode: Mode) -> Script | None:
    tree = read_tree(source.text, problems)
    if tree is None:
        return None
    if isinstance(tree, MappingTree) and native.recognises(tree):
        return native.read(tree, Reader(problems, lenient=False))
    if isinstance(tree, MappingTree) and session_form.recognises(tree):
        return session_form.read(tree, Reader(problems, lenient=mode == "compat", respell=session_form.RESPELL))
    problems.add("UNRECOGNISED_SCRIPT", "unrecognised script type: no `script:` and no `session:` at the top", tree.at)
    return None


# -- side files ---------------------------------------------------------------------------------------------------


class _GlobalsFile(Node, frozen=True, kw_only=True):
    globals: tuple[Declaration, ...]


def _globals(script: Script, source: Source, problems: Problems) -> tuple[Declaration, ...]:
    """The global variables of the side files a script uses."""
    found: list[Declaration] = []
    if len(script.use) > SIDE_FILES_MAX:
        problems.add("CONSTRAINT_VIOLATION", f"at most {SIDE_FILES_MAX} side files", script.mark("use"))
    for name in script.use[:SIDE_FILES_MAX]:
        text = source.side_files.get(name)
        if text is None:
            fix = "A side file lies in the script's folder or below." if _leaves_folder(name) else ""
            problems.add("USE_NOT_FOUND", f"no file {name} beside the script", script.mark("use"), fix=fix)
        else:
            found += _side_file(name, text, problems)
    return tuple(found)


def _side_file(name: str, text: str, problems: Problems) -> tuple[Declaration, ...]:
    inner = Problems(name)
    tree = read_tree(text, inner)
    declared: tuple[Declaration, ...] = ()
    if isinstance(tree, MappingTree) and (tree.get("globals") or tree.get("global")):
        spelled = tuple((_globals_key(key), value) for key, value in tree.pairs)
        read = Reader(inner, lenient=False).read(MappingTree(spelled, tree.at, tree.size), _GlobalsFile)
        declared = read.globals if read is not None else ()
    elif tree is not None:
        inner.add("UNRECOGNISED_SCRIPT", f"{name} holds no `globals:`", tree.at, fix="Write `globals:` and a list.")
    problems.extend(inner)
    return declared


def _globals_key(key: Scalar) -> Scalar:
    return msgspec.structs.replace(key, text="globals") if key.text == "global" else key


# -- ids ------------------------------------------------------------------------------------------------------------


def _with_ids(script: Script, problems: Problems) -> Script:
    """The script with an id for every action: ``<type>_<n>`` within its topic where the author gave none."""
    return msgspec.structs.replace(
        script,
        phases=tuple(
            msgspec.structs.replace(phase, topics=tuple(_topic_with_ids(topic, problems) for topic in phase.topics))
            for phase in script.phases
        ),
    )


def _topic_with_ids(topic: Topic, problems: Problems) -> Topic:
    taken = {action.id for action in walk(topic.actions)}
    fresh = _derived_ids(taken, problems)
    return msgspec.structs.replace(topic, actions=_named(topic.actions, fresh))


def _derived_ids(taken: set[str], problems: Problems) -> Callable[[str, Location], str]:
    counts: dict[str, Iterator[str]] = {}

    def fresh(kind: str, at: Location) -> str:
        names = counts.setdefault(kind, (f"{kind}_{n}" for n in range(1, 1_000_000)))
        name = next(name for name in names if name not in taken)
        problems.add("ID_DERIVED", f"this `{kind}` has no id; it is called {name}", at, fix=f"Add `id: {name}`.")
        return name

    return fresh


def _named(actions: tuple[Action, ...], fresh: Callable[[str, Location], str]) -> tuple[Action, ...]:
    return tuple(_named_action(action, fresh) for action in actions)


def _named_action(action: Action, fresh: Callable[[str, Location], str]) -> Action:
    named = action if action.id else msgspec.structs.replace(action, id=fresh(action_type(action), action.at))
    match named:
        case If():
            return msgspec.structs.replace(
                named, then=_named(named.then, fresh), otherwise=_named(named.otherwise, fresh)
            )
        case Foreach() | Repeat():
            return msgspec.structs.replace(named, do=_named(named.do, fresh))
        case Choose():
            choices = tuple(
                msgspec.structs.replace(choice, actions=_named(choice.actions, fresh)) for choice in named.choices
            )
            return msgspec.structs.replace(named, choices=choices)
        case _:
            return named
