"""The reports from `report_list.yaml`, with their descriptions and parameters. Macros are in `reports/NAME.sql`."""

from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

Kind: TypeAlias = Literal["text", "integer", "number", "moment"]
"""The type of a parameter; a moment is an ISO 8601 date, or date and time, in UTC unless it has an offset."""


class Parameter(Struct, frozen=True, forbid_unknown_fields=True):
    """A parameter of a report."""

    name: str
    kind: Kind
    says: str
    default: str | int | None = None
    """The default value; null: no limit."""
    choices: tuple[str, ...] = ()
    needed: bool = False


class Report(Struct, frozen=True, forbid_unknown_fields=True):
    """A report: a table macro of the same name in every analytics file."""

    name: str
    title: str
    says: str
    parameters: tuple[Parameter, ...]
    reads_words: bool = False
    """Whether it reads the texts of messages, which only unmasked files contain."""

    @property
    def sql(self) -> str:
        """The macro, with the meanings of its columns in comments."""
        return _macro(self.name)

    @property
    def definition(self) -> str:
        """The meanings of its columns: the comment before the macro."""
        comment = takewhile(lambda line: line.startswith("--"), self.sql.splitlines())
        return "\n".join(line.removeprefix("-- ") for line in comment)


@cache
def _macro(name: str) -> str:
    return Path(__file__).with_name("reports").joinpath(f"{name}.sql").read_text("utf-8")


class _Lists(Struct, frozen=True):
    shared: tuple[Parameter, ...]
    reports: tuple[Report, ...]


REPORTS = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=_Lists).reports
