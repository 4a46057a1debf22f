"""Convert a script of any format to the native format, with its comments.

Parts that cannot be converted become comments at their location, and are listed in `losses`.
"""

import posixpath
import re
from collections.abc import Iterator
from collections.abc import Mapping as MappingType
from operator import attrgetter
from pathlib import PurePath

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from scripts.checks.check import check_script
from scripts.checks.identifier_checks import VARIABLE_NAME
from scripts.formats.stage.yaml_fixups import readable
from scripts.model.base import Location, Node, Reference, unused_name, without_places
from scripts.model.diagnostics import Problem, Problems, problem_at
from scripts.model.script import Script, skills_called
from scripts.model.variable_names import read_names, written_names
from scripts.parse.includes import BESIDE
from scripts.parse.read_script import Reading, Source, read_include_file, read_script
from scripts.versions.rename_variables import with_names
from scripts.yaml.comments import attach
from scripts.yaml.parser import Scalar, Tree, items_of, pairs_of, plain_value, read_tree
from scripts.yaml.script_writer import FILES_OF_DETECTORS, native_yaml, noted_places, simplify
from scripts.yaml.writer import pair_lines, plain, printable

_LOST_KEY_CODES = {"UNKNOWN_KEY", "KEY_IGNORED", "KEY_CONFLICT", "ACTION_TYPE_UNKNOWN"}
_LOSS_CODES = _LOST_KEY_CODES | {"PLACEHOLDER_INVALID"}
_TOLERATED_CODES = {
    "SKILL_UNKNOWN", "FORM_UNKNOWN", "ROLE_UNKNOWN", "GOTO_UNKNOWN", "GOTO_IN_SKILL", "PARAMETER_UNKNOWN",
    "RETURN_UNKNOWN", "EXPRESSION_INVALID", "PYTHON_REFUSED", "DUPLICATE_KEY", "DUPLICATE_DECLARATION",
    "REQUIRED_FIELD_MISSING", "CONSTRAINT_VIOLATION", "DEFAULT_MISMATCH", "ENUM_VALUE_INVALID",
}  # fmt: skip
_LEFT_TO_AUTHORS = {"ANSWER_TYPE_MISMATCH"}  # the older formats run with it, and only the author knows the right type
_REPORTED_AT_VALUE = {"KEY_IGNORED"}  # the reader reports the location of such a key's value, not of the key
_SEE = '# What could not be carried over stands in comments that begin with "Not carried over".'
_HEADER = re.compile(rf"# Converted from .+, which is in the \w+ form(?:at)?\.|{re.escape(_SEE)}")


class Conversion(Struct, frozen=True):
    """The native text, the parts of the original that it lacks, and the include files that it uses."""

    text: str
    losses: tuple[Problem, ...]
    use: tuple[str, ...] = ()


class NotConvertible(Exception):
    """The native text would not be the same script; the message gives the reason."""


def convert(script: Script, reading: Reading, folder: str = "") -> Conversion:
    """Write the script of a reading in the native format. Raises NotConvertible.

    `folder` is the path of the include files relative to the location of the text; empty: the same folder.
    """
    source = reading.source
    script, losses = _rename_invalid(simplify(with_sides(script, source)))
    if folder:
        script = replace(script, use=tuple(posixpath.join(folder, name) for name in script.use))
        files = {posixpath.join(folder, name): text for name, text in source.side_files.items()}
        source = replace(source, side_files=files)
    places = noted_places(script)
    losses += _losses(reading, places)
    notes, tail = attach(readable(source.text), places)
    notes = {at: _without_header(lines) for at, lines in notes.items()}
    for loss in losses:
        notes.setdefault(loss.owner, []).extend(loss.comment)
    notes = {at: [printable(line) for line in lines] for at, lines in notes.items()}
    above = notes.pop(script.at, [])
    name = printable(PurePath(source.file).name)
    head = [f"# Converted from {name}, which is in the {script.form} format.", *([_SEE] if losses else [])]
    lines = [*head, *([""] if above else []), *above, native_yaml(script, notes).rstrip("\n"), *map(printable, tail)]
    text = "\n".join(lines) + "\n"
    _compare(script, source, text)
    lost = sorted((loss.problem for loss in losses), key=attrgetter("line", "column"))
    return Conversion(text, tuple(lost), script.use)


def _without_header(lines: list[str]) -> list[str]:
    """Return comment lines except those that an earlier conversion added at the top."""
    remaining = [line for line in lines if not _HEADER.fullmatch(line)]
    return remaining[1:] if len(remaining) < len(lines) and remaining[:1] == [""] else remaining


def _compare(script: Script, source: Source, text: str) -> None:
    """Verify that a text reads as exactly this script. Raises NotConvertible."""
    again = read_script(Source(text, source.file, source.side_files), "compat")  # which only include files can have
    refused = next((each for each in again.errors if each.code not in _LEFT_TO_AUTHORS), None)
    if refused is not None or again.draft is None:
        raise NotConvertible(str(refused))
    if _plain(again.draft) != _plain(script):
        raise NotConvertible("the native text reads differently; this is a defect of Cuebook, please report it")


def _plain(script: Script) -> bytes:
    if script.form in FILES_OF_DETECTORS:
        return msgspec.json.encode(without_places(script).detectors)
    return msgspec.json.encode(replace(without_places(script), form="native"))


# -- losses ---------------------------------------------------------------------------------------------------


class _Pair(Struct, frozen=True):
    key: Scalar
    value: Tree
    around: tuple[Location, ...]  # the enclosing mappings, outermost first


class _Loss(Struct, frozen=True):
    problem: Problem
    owner: Location  # its node
    comment: list[str]


def _pairs(tree: Tree, around: tuple[Location, ...] = ()) -> Iterator[_Pair]:
    """Yield every pair of a tree."""
    for key, value in pairs_of(tree):
        inside = (*around, tree.at)
        yield _Pair(key, value, inside)
        yield from _pairs(value, inside)
    for item in items_of(tree):
        yield from _pairs(item, around)


def _losses(reading: Reading, places: list[Location]) -> Iterator[_Loss]:
    """Yield what the reader ignored and reported; what the checks of the script report is in the script."""
    tree = read_tree(readable(reading.source.text), Problems(reading.source.file))
    pairs = list(_pairs(tree)) if tree is not None else []
    by_key = {pair.key.at: pair for pair in reversed(pairs)}
    by_value = {pair.value.at: pair for pair in reversed(pairs)}
    known = set(places)
    reported: set[Location] = set()
    for problem in _of_reader(reading):
        at = Location(problem.line, problem.column, problem.file)
        lost = problem.code in _LOSS_CODES or (problem.code in _TOLERATED_CODES and problem.severity == "warning")
        if not lost or problem.file != reading.source.file:
            continue
        found = by_value.get(at) if problem.code in _REPORTED_AT_VALUE else by_key.get(at) or by_value.get(at)
        if found is None or problem.code not in _LOST_KEY_CODES:
            above = [place for place in places if place.line <= at.line]
            yield _Loss(problem, (above or places)[-1], [f"# Not carried over: {problem.message}"])
        elif found.key.at not in reported:
            reported.add(found.key.at)
            yield _Loss(problem, _owner(found, known, places[0]), _comment(found))


def _of_reader(reading: Reading) -> Iterator[Problem]:
    """Yield the problems of a reading without those of which the checks of its script only warn.

    The script is checked again because older formats have errors reported as warnings, which look the same as these.
    """
    checks = Problems(reading.source.file)
    if reading.draft is not None:
        check_script(reading.draft, checks, {"": reading.source.text, **reading.source.side_files})
    found = {(each.code, each.message, each.line, each.column) for each in checks.sorted() if each.severity != "error"}
    return (each for each in reading.problems if (each.code, each.message, each.line, each.column) not in found)


def _owner(pair: _Pair, known: set[Location], otherwise: Location) -> Location:
    return next((at for at in reversed(pair.around) if at in known), otherwise)


def _comment(pair: _Pair) -> list[str]:
    lines = pair_lines(pair.key.text, plain(plain_value(pair.value)))
    if len(lines) == 1:
        return [f"# Not carried over: {lines[0]}"]
    return ["# Not carried over:", *(f"#   {line}".rstrip() for line in lines)]


# -- names ----------------------------------------------------------------------------------------------------------


def _rename_invalid(script: Script) -> tuple[Script, list[_Loss]]:
    """Return the script with valid names for those that only the older formats allow. Raises NotConvertible."""
    places = list(written_names(script))
    odd = {name: at for name, at in reversed(places) if not VARIABLE_NAME.fullmatch(name)}
    shared = next((name for name, at in odd.items() if at.file != script.at.file), None)
    if shared is not None:
        raise NotConvertible(f"the variable `{shared}` of an include file has a name that only the older formats allow")
    used_names = {name for name, _ in places} | set(read_names(script))
    new: dict[str, str] = {}
    for name in odd:
        word = re.sub(r"\W+", "_", name).strip("_")
        new[name] = unused_name(word, used_names)
        used_names.add(new[name])
    losses = []
    for name, at in odd.items():
        message = f"`{name}` is not a valid name; it is renamed to `{new[name]}`, with an entry in `migrations`"
        comment = f"# Not carried over: the name `{name}`; the variable is renamed to `{new[name]}`."
        owner = at if at.file == script.at.file else script.at
        problem = problem_at("VARIABLE_NAME_INVALID", message, at, severity="warning")
        losses.append(_Loss(problem, owner, [comment]))
    if not new:
        return script, losses
    renamed: Script = with_names(script, new)
    variables = {**script.migrations.variables, **{old: Reference(word) for old, word in new.items()}}
    return replace(renamed, migrations=replace(renamed.migrations, variables=variables)), losses


# -- include files ----------------------------------------------------------------------------------------------------


_INLINED = ("skills", "forms", "interrupts")  # keys that a script may also have
_STAYS = ("globals", "roles", "experiments", "repairs", "detectors", "strings")


def with_sides(script: Script, source: Source) -> Script:
    """Return the script with the required content of its include files, in `use` or inlined."""
    unnamed = [name for name in BESIDE.get(script.form, ()) if name in source.side_files and name not in script.use]
    script = _with_called_skills(script, set(unnamed))
    needed = [name for name in unnamed if _has_content(script, source.side_files, name)]
    script = replace(script, use=(*needed, *script.use))
    for name in script.use if script.form == "stage" else ():
        if name in source.side_files and _is_inlined(script, source, name):
            script = _inline(script, name)
    return script


def _with_called_skills(script: Script, files: set[str]) -> Script:
    """Return the script without unused skills of some files."""
    called = skills_called(
        script,
        *(topic.actions for phase in script.phases for topic in phase.topics),
        *(each.actions for each in script.interrupts),
        *(skill.actions for skill in script.skills if skill.at.file not in files),
    )
    needed = tuple(skill for skill in script.skills if skill.at.file not in files or skill.id in called)
    return replace(script, skills=needed)


def _from(script: Script, name: str, keys: tuple[str, ...]) -> list[Node]:
    return [node for key in keys for node in getattr(script, key) if node.at.file == name]


def _has_content(script: Script, files: MappingType[str, str], name: str) -> bool:
    return bool(_from(script, name, (*_INLINED, *_STAYS))) or "use:" in files[name]


def _is_inlined(script: Script, source: Source, name: str) -> bool:
    """Return whether a native script cannot use a file, or would get more forms and skills from it than this one."""
    if _from(script, name, _STAYS) or "use:" in source.side_files[name]:
        return False
    alone = read_include_file(Source(source.side_files[name], name, source.side_files))
    if alone.errors or alone.script is None:
        return True
    return len(_from(script, name, _INLINED)) != len(_from(alone.script, name, _INLINED))


def _inline(script: Script, name: str) -> Script:
    """Return the script with the content of a file as its own."""
    changed = {
        key: tuple(replace(node, at=script.at) if node.at.file == name else node for node in getattr(script, key))
        for key in _INLINED
    }
    return replace(script, use=tuple(each for each in script.use if each != name), **changed)
