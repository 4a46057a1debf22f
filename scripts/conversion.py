"""A script of any form, written in the native one: with its comments, and with a word on what has no place there.

What cannot be carried over stands as a comment at its place, and in `losses`.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import PurePath

import msgspec
import regex
from msgspec import Struct

from scripts.diagnostics import CODES, Problem, Problems
from scripts.dialects.stage_repairs import readable
from scripts.dialects.unkept import unkept
from scripts.inlining import with_sides
from scripts.model import Script
from scripts.names import read_names
from scripts.native_yaml import FILES_OF_DETECTORS, native_yaml, noted_places, without_places
from scripts.nodes import Location, Reference
from scripts.parse import Reading, Source, read_script
from scripts.remarks import attach
from scripts.renaming import with_names, written_names
from scripts.source import Mapping, Scalar, Sequence, Tree, plain_value, read_tree
from scripts.yaml_text import pair_lines, plain, printable

_LOST_KEYS = {"UNKNOWN_KEY", "KEY_IGNORED", "KEY_CONFLICT", "ACTION_TYPE_UNKNOWN"}
_LOST = _LOST_KEYS | {"PLACEHOLDER_INVALID"}
_PASSED_OVER = {"SKILL_UNKNOWN", "FORM_UNKNOWN", "ROLE_UNKNOWN", "GOTO_UNKNOWN", "GOTO_IN_SKILL", "PARAMETER_UNKNOWN"}
_PASSED_OVER |= {"RETURN_UNKNOWN", "EXPRESSION_INVALID", "PYTHON_REFUSED", "DUPLICATE_KEY", "DUPLICATE_DECLARATION"}
_PASSED_OVER |= {"REQUIRED_FIELD_MISSING", "CONSTRAINT_VIOLATION", "DEFAULT_MISMATCH", "ENUM_VALUE_INVALID"}
_TOLD_AT_VALUE = {"KEY_IGNORED"}  # the reader points at the value of such a key, not at the key
_SEE = '# What could not be carried over stands in comments that begin with "Not carried over".'
_HEADER = re.compile(rf"# Converted from .+, which is in the \w+ form\.|{re.escape(_SEE)}")
_NAME = regex.compile(r"[^\W\d]\w*")  # as scripts.check wants it in the native form


class Conversion(Struct, frozen=True):
    """The native text, what of the original it does not hold, and the side files it uses."""

    text: str
    losses: tuple[Problem, ...]
    use: tuple[str, ...] = ()


class NotConvertible(Exception):
    """The native text would not be the same script; the message says why."""


def convert(script: Script, reading: Reading, folder: str = "") -> Conversion:
    """Write the script of a reading in the native form. Raises NotConvertible.

    `folder` is the path of the side files as seen from where the text will lie; empty: they lie beside it.
    """
    source = reading.source
    script, losses = _renamed(with_sides(script, source))
    if folder:
        script = msgspec.structs.replace(script, use=tuple(posixpath.join(folder, name) for name in script.use))
        files = {posixpath.join(folder, name): text for name, text in source.side_files.items()}
        source = msgspec.structs.replace(source, side_files=files)
    places = noted_places(script)
    losses += _losses(reading, places)
    notes, tail = attach(readable(source.text), places)
    notes = {at: _without_header(lines) for at, lines in notes.items()}
    for loss in losses:
        notes.setdefault(loss.owner, []).extend(loss.comment)
    notes = {at: [printable(line) for line in lines] for at, lines in notes.items()}
    above = notes.pop(script.at, [])
    name = printable(PurePath(source.file).name)
    head = [f"# Converted from {name}, which is in the {script.form} form.", *([_SEE] if losses else [])]
    lines = [*head, *([""] if above else []), *above, native_yaml(script, notes).rstrip("\n"), *map(printable, tail)]
    text = "\n".join(lines) + "\n"
    _compare(script, source, text)
    return Conversion(text, tuple(sorted((loss.problem for loss in losses), key=_by_place)), script.use)


def _without_header(lines: list[str]) -> list[str]:
    """Comment lines but for those that an earlier conversion put at the top."""
    kept = [line for line in lines if not _HEADER.fullmatch(line)]
    return kept[1:] if len(kept) < len(lines) and kept[:1] == [""] else kept


def _by_place(problem: Problem) -> tuple[int, int]:
    return problem.line, problem.column


def _compare(script: Script, source: Source, text: str) -> None:
    """Raises NotConvertible where the text is not this script to the letter."""
    again = read_script(Source(text, source.file, source.side_files), "compat")  # which only side files know
    if again.script is None:
        raise NotConvertible(str(again.errors[0]))
    if _plain(again.script) != _plain(script):
        raise NotConvertible("the native text reads differently; this is a defect of Cuebook, please report it")


def _plain(script: Script) -> bytes:
    if script.form in FILES_OF_DETECTORS:
        return msgspec.json.encode(without_places(script).detectors)
    return msgspec.json.encode(msgspec.structs.replace(without_places(script), form="native"))


# -- what is lost ---------------------------------------------------------------------------------------------------


class _Pair(Struct, frozen=True):
    key: Scalar
    value: Tree
    around: tuple[Location, ...]  # the mappings it stands in, outermost first


class _Loss(Struct, frozen=True):
    problem: Problem
    owner: Location  # the node it belongs to
    comment: list[str]


def _pairs(tree: Tree | None, around: tuple[Location, ...] = ()) -> Iterator[_Pair]:
    """Every pair of a tree."""
    match tree:
        case Mapping():
            for key, value in tree.pairs:
                yield _Pair(key, value, (*around, tree.at))
                yield from _pairs(value, (*around, tree.at))
        case Sequence():
            for item in tree.items:
                yield from _pairs(item, around)
        case _:
            pass


def _losses(reading: Reading, places: list[Location]) -> Iterator[_Loss]:
    """What the reader passed over, whether it said so or not."""
    tree = read_tree(readable(reading.source.text), Problems(reading.source.file))
    pairs = list(_pairs(tree))
    by_key = {pair.key.at: pair for pair in reversed(pairs)}
    by_value = {pair.value.at: pair for pair in reversed(pairs)}
    known = set(places)
    told: set[Location] = set()
    for problem in reading.problems:
        at = Location(problem.line, problem.column, problem.file)
        lost = problem.code in _LOST or (problem.code in _PASSED_OVER and problem.severity == "warning")
        if not lost or problem.file != reading.source.file:
            continue
        found = by_value.get(at) if problem.code in _TOLD_AT_VALUE else by_key.get(at) or by_value.get(at)
        if found is None or problem.code not in _LOST_KEYS:
            above = [place for place in places if place.line <= at.line]
            yield _Loss(problem, (above or places)[-1], [f"# Not carried over: {problem.message}"])
        elif found.key.at not in told:
            told.add(found.key.at)
            yield _Loss(problem, _owner(found, known, places[0]), _comment(found))
    for key in unkept(tree):
        if key.at not in told:
            told.add(key.at)
            message = f"`{key.text}` has no place in the native form"
            found = by_key[key.at]
            yield _Loss(_problem("KEY_IGNORED", message, key.at), _owner(found, known, places[0]), _comment(found))


def _owner(pair: _Pair, known: set[Location], otherwise: Location) -> Location:
    return next((at for at in reversed(pair.around) if at in known), otherwise)


def _problem(code: str, message: str, at: Location) -> Problem:
    return Problem(code, message, "warning", max(at.line, 1), max(at.column, 1), at.file, fix=CODES[code].fix)


def _comment(pair: _Pair) -> list[str]:
    lines = pair_lines(pair.key.text, plain(plain_value(pair.value)))
    if len(lines) == 1:
        return [f"# Not carried over: {lines[0]}"]
    return ["# Not carried over:", *(f"#   {line}".rstrip() for line in lines)]


# -- names ----------------------------------------------------------------------------------------------------------


def _renamed(script: Script) -> tuple[Script, list[_Loss]]:
    """The script with words for the names that only the older forms allow. Raises NotConvertible."""
    places = list(written_names(script))
    odd = {name: at for name, at in reversed(places) if not _NAME.fullmatch(name)}
    shared = next((name for name, at in odd.items() if at.file != script.at.file), None)
    if shared is not None:
        raise NotConvertible(f"the variable `{shared}` of a side file has a name that only the older forms allow")
    taken = {name for name, _ in places} | set(read_names(script))
    new: dict[str, str] = {}
    for name in odd:
        word = re.sub(r"\W+", "_", name).strip("_")
        new[name] = next(each for each in (word, *(f"{word}_{n}" for n in range(2, 10_000))) if each not in taken)
        taken.add(new[name])
    losses = []
    for name, at in odd.items():
        message = f"`{name}` is no word; it is called `{new[name]}` here, which `migrations` says"
        comment = f"# Not carried over: the name `{name}`; the variable is called `{new[name]}` here."
        owner = at if at.file == script.at.file else script.at
        losses.append(_Loss(_problem("VARIABLE_NAME_INVALID", message, at), owner, [comment]))
    if not new:
        return script, losses
    renamed = with_names(script, new)
    variables = {**script.migrations.variables, **{old: Reference(word) for old, word in new.items()}}
    migrations = msgspec.structs.replace(renamed.migrations, variables=variables)
    return msgspec.structs.replace(renamed, migrations=migrations), losses
