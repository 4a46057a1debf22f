"""Problems of scripts as SARIF 2.1.0, the format in which code hosts and editors take the findings of analysers.

The standard: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from msgspec import Struct, field

from scripts.diagnostics import CODES, Problem, Severity
from scripts.parse import Reading

SCHEMA_URL = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


class Text(Struct, frozen=True):
    """A message (3.11)."""

    text: str


class Configuration(Struct, frozen=True):
    """How grave a rule's findings are, unless a result says otherwise (3.50)."""

    level: Severity


class Rule(Struct, frozen=True, rename="camel"):
    """A code that `cuebook explain` explains (3.49)."""

    id: str
    short_description: Text
    help: Text
    default_configuration: Configuration


class Driver(Struct, frozen=True):
    """Cuebook itself (3.19)."""

    name: str
    version: str
    rules: tuple[Rule, ...]


class Tool(Struct, frozen=True):
    """What analysed the scripts (3.18)."""

    driver: Driver


class ArtifactLocation(Struct, frozen=True):
    """A file (3.4)."""

    uri: str


class Region(Struct, frozen=True, rename="camel"):
    """A place in a file; both count from 1 (3.30)."""

    start_line: int
    start_column: int


class PhysicalLocation(Struct, frozen=True, rename="camel"):
    """A place in a file, with the file (3.29)."""

    artifact_location: ArtifactLocation
    region: Region


class LogicalLocation(Struct, frozen=True, rename="camel"):
    """A place in the script: ``phase/topic`` (3.33)."""

    fully_qualified_name: str


class Place(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where a finding is (3.28)."""

    physical_location: PhysicalLocation
    logical_locations: tuple[LogicalLocation, ...] = ()


class Result(Struct, frozen=True, rename="camel"):
    """A finding (3.27)."""

    rule_id: str
    rule_index: int
    level: Severity
    message: Text
    locations: tuple[Place, ...]


class Run(Struct, frozen=True, rename="camel"):
    """One run of `cuebook check` (3.14)."""

    tool: Tool
    results: tuple[Result, ...]
    column_kind: Literal["unicodeCodePoints"] = "unicodeCodePoints"


class Log(Struct, frozen=True):
    """The whole document (3.13)."""

    runs: tuple[Run, ...]
    version: Literal["2.1.0"] = "2.1.0"
    schema: str = field(name="$schema", default=SCHEMA_URL)


_RULE_INDEXES = {code: index for index, code in enumerate(CODES)}


def sarif_log(readings: Iterable[Reading], folder: Path) -> Log:
    """The problems of readings; files in or below a folder are named relative to it."""
    rules = tuple(
        Rule(code, Text(kind.meaning), Text(kind.fix), Configuration(kind.severity)) for code, kind in CODES.items()
    )
    results = tuple(_result(problem, reading, folder) for reading in readings for problem in reading.problems)
    return Log((Run(Tool(Driver("Cuebook", version("cuebook"), rules)), results),))


def _result(problem: Problem, reading: Reading, folder: Path) -> Result:
    where = PhysicalLocation(
        ArtifactLocation(_uri(_file_of(problem, reading), folder)), Region(problem.line, problem.column)
    )
    return Result(
        rule_id=problem.code,
        rule_index=_RULE_INDEXES[problem.code],
        level=problem.severity,
        message=Text(f"{problem.message}. {problem.fix}".rstrip()),
        locations=(Place(where, (LogicalLocation(problem.path),) if problem.path else ()),),
    )


def _file_of(problem: Problem, reading: Reading) -> Path:
    """The file a problem is in; a side file is named as the script names it, from its own folder."""
    script = Path(reading.source.file)
    return script if problem.file == reading.source.file else script.parent / problem.file


def _uri(file: Path, folder: Path) -> str:
    absolute, folder = file.absolute(), folder.absolute()
    if absolute.is_relative_to(folder):
        return quote(absolute.relative_to(folder).as_posix())
    return absolute.as_uri()
