"""The reports of `report_list.yaml`, with their parameters, and the SELECT that runs one.

A report is a table macro of the same name in every analytics file; the macros are in `reports/NAME.sql`.
"""

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from store.interface.errors import ReportRefused

Value: TypeAlias = str | int | float | datetime
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
    values = {name: _value(known[name], text) for name, text in arguments.items()}
    zone = ZoneInfo(str(values.get("zone", "UTC")))
    times = {
        name: value if value.tzinfo is not None else value.replace(tzinfo=zone)
        for name in ("since", "until")
        if isinstance(value := values.get(name), datetime)
    }
    if len(times) == 2 and times["until"] <= times["since"]:
        raise ReportRefused("`until` is not after `since`; what is counted is before `until`", "until")
    literals = (f"{name} := {_literal(value)}" for name, value in (values | times).items())
    return f"FROM {report.name}({', '.join(literals)})"


def _instead(name: str, existing: Iterable[str]) -> str:
    names = list(existing)
    close = difflib.get_close_matches(name, names, 1)
    return f"; did you mean `{close[0]}`?" if close else f"; there are {', '.join(names)}"


def _value(parameter: Parameter, text: str) -> Value:
    """Return the value of a parameter. Raises ReportRefused."""
    if parameter.choices and text not in parameter.choices:
        raise _unfit(parameter, text, f"one of {', '.join(parameter.choices)}")
    expected, read = _VALUES.get(parameter.name) or _VALUES[parameter.kind]
    try:
        return read(text)
    except (ValueError, LookupError, OSError):  # a zone may also be unknown, or a folder of the database
        raise _unfit(parameter, text, expected) from None


def _unfit(parameter: Parameter, text: str, expected: str) -> ReportRefused:
    shown = text if len(text) <= 50 else f"{text[:50]}…"
    return ReportRefused(f"`{parameter.name}` is {expected}, not {shown!r}", parameter.name)


def _literal(value: Value) -> str:
    """Return a value as an SQL literal; only the quote of texts needs escaping."""
    match value:
        case datetime():
            return f"TIMESTAMPTZ '{value.isoformat()}'"
        case str():
            doubled = value.replace("'", "''")
            return f"'{doubled}'"
        case _:
            return repr(value)


def _text(text: str) -> str:
    if "\0" in text:
        raise ValueError("a text contains NUL")
    return text


def _integer(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**31:
        raise ValueError("an integer is out of range")
    return number


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or not 0 <= number <= 1e6:
        raise ValueError("a number is out of range")
    return number


_VALUES: Mapping[str, tuple[str, Callable[[str], Value]]] = {
    "session": ("the id of a session", lambda text: str(UUID(text.strip()))),
    "zone": ("a time zone such as Asia/Shanghai", lambda text: ZoneInfo(text.strip()).key),
    "integer": ("a whole number from 0 to 2147483647", _integer),
    "number": ("a number from 0 to 1000000", _number),
    "moment": (
        "a date such as 2025-03-01, or a date and time",
        lambda text: datetime.fromisoformat(text.strip()),  # `statement` adds the zone of the report
    ),
    "text": ("text without the character NUL", _text),
}
"""What a parameter is, and its value, by the name of the parameter or by its kind."""
