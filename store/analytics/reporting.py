"""The reports of `report_list.yaml`, with their parameters, and the SELECT that runs one.

A report is a table macro of the same name in every analytics file; the macros are in `reports/NAME.sql`.
"""

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from store.interface.errors import ReportRefused

Kind: TypeAlias = Literal["text", "integer", "number", "moment"]
"""The type of a parameter; a moment is an ISO 8601 date, or date and time, without an offset in the `zone` of the
report, else in UTC.
"""


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


REPORTS = msgspec.yaml.decode(Path(__file__).with_name("report_list.yaml").read_bytes(), type=_Lists).reports
_BY_NAME = {report.name: report for report in REPORTS}


def report_named(name: str) -> Report:
    """Return the report with this name. Raises ReportRefused if there is none."""
    if name not in _BY_NAME:
        raise ReportRefused(f"there is no report `{name}`{_instead(name, _BY_NAME)}")
    return _BY_NAME[name]


def statement(report: Report, arguments: Mapping[str, str]) -> str:
    """Return the SELECT that runs a report; `arguments` are texts. Raises ReportRefused."""
    known = {each.name: each for each in report.parameters}
    for name in arguments:
        if name not in known:
            raise ReportRefused(f"the report {report.name} has no parameter `{name}`{_instead(name, known)}", name)
    for each in report.parameters:
        if each.needed and not arguments.get(each.name, "").strip():
            raise ReportRefused(f"the report {report.name} needs `{each.name}`: {each.says}", each.name)
    literals = {name: _literal(known[name], text) for name, text in arguments.items()}
    zone = ZoneInfo(arguments.get("zone", "UTC").strip())
    times = {name: _moment(arguments[name], zone) for name in ("since", "until") if name in arguments}
    if [*times.values()] != sorted(times.values()):
        raise ReportRefused("`until` is before `since`", "until")
    literals |= {name: f"TIMESTAMPTZ '{moment.isoformat()}'" for name, moment in times.items()}
    return f"FROM {report.name}({', '.join(f'{name} := {literal}' for name, literal in literals.items())})"


def _instead(name: str, existing: Iterable[str]) -> str:
    names = list(existing)
    close = difflib.get_close_matches(name, names, 1)
    return f"; did you mean `{close[0]}`?" if close else f"; there are {', '.join(names)}"


def _literal(parameter: Parameter, text: str) -> str:
    """Return a value as an SQL literal. Raises ReportRefused."""
    if parameter.choices and text not in parameter.choices:
        raise _unfit(parameter, text, f"one of {', '.join(parameter.choices)}")
    expected, literal = _LITERALS.get(parameter.name) or _LITERALS[parameter.kind]
    try:
        return literal(text)
    except (ValueError, LookupError, OSError):  # a zone may also be unknown, or a folder of the database
        raise _unfit(parameter, text, expected) from None


def _unfit(parameter: Parameter, text: str, expected: str) -> ReportRefused:
    shown = text if len(text) <= 50 else f"{text[:50]}…"
    return ReportRefused(f"`{parameter.name}` is {expected}, not {shown!r}", parameter.name)


def _quoted(text: str) -> str:
    """Return a text as an SQL string literal; only the quote needs escaping. Raises ValueError."""
    if "\0" in text:
        raise ValueError("a text contains NUL")
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _integer(text: str) -> str:
    number = int(text)
    if not 0 <= number < 2**31:
        raise ValueError("an integer is out of range")
    return str(number)


def _number(text: str) -> str:
    number = float(text)
    if not math.isfinite(number) or not 0 <= number <= 1e6:
        raise ValueError("a number is out of range")
    return repr(number)


def _moment(text: str, zone: tzinfo = UTC) -> datetime:
    moment = datetime.fromisoformat(text.strip())
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)


_LITERALS: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "session": ("the id of a session", lambda text: _quoted(str(UUID(text.strip())))),
    "zone": ("a time zone such as Asia/Shanghai", lambda text: _quoted(ZoneInfo(text.strip()).key)),
    "integer": ("a whole number from 0 to 2147483647", _integer),
    "number": ("a number from 0 to 1000000", _number),
    "moment": (
        "a date such as 2025-03-01, or a date and time",
        lambda text: _moment(text).isoformat(),  # `statement` writes it in the zone of the report
    ),
    "text": ("text without the character NUL", _quoted),
}
"""What a parameter is, and its SQL literal, by the name of the parameter or by its kind."""
