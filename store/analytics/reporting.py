"""Find a report by name, check its parameters, and build the SELECT that runs it."""

import difflib
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from store.analytics.report_list import REPORTS, Parameter, Report
from store.interface.errors import ReportRefused

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
    literals = [f"{name} := {_literal(known[name], text)}" for name, text in arguments.items()]
    times = [_moment(known[name], arguments[name]) for name in ("since", "until") if name in arguments]
    if times != sorted(times):
        raise ReportRefused("`until` is before `since`", "until")
    return f"FROM {report.name}({', '.join(literals)})"


def _instead(name: str, existing: Iterable[str]) -> str:
    names = list(existing)
    close = difflib.get_close_matches(name, names, 1)
    return f"; did you mean `{close[0]}`?" if close else f"; there are {', '.join(names)}"


def _literal(parameter: Parameter, text: str) -> str:
    """Return a value as an SQL literal. Raises ReportRefused."""
    if parameter.choices and text not in parameter.choices:
        raise _unfit(parameter, text, f"one of {', '.join(parameter.choices)}")
    if parameter.name == "session":
        return _quoted(str(_session_id(parameter, text)))
    if parameter.name == "zone":
        return _quoted(_zone(parameter, text))
    match parameter.kind:
        case "integer":
            return str(_integer(parameter, text))
        case "number":
            return repr(_number(parameter, text))
        case "moment":
            return f"TIMESTAMPTZ '{_moment(parameter, text).isoformat()}'"
        case "text":
            if "\0" in text:
                raise _unfit(parameter, text, "text without the character NUL")
            return _quoted(text)


def _quoted(text: str) -> str:
    """Return a text as an SQL string literal; only the quote needs escaping."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _unfit(parameter: Parameter, text: str, expected: str) -> ReportRefused:
    shown = text if len(text) <= 50 else f"{text[:50]}…"
    return ReportRefused(f"`{parameter.name}` is {expected}, not {shown!r}", parameter.name)


def _session_id(parameter: Parameter, text: str) -> UUID:
    try:
        return UUID(text.strip())
    except ValueError:
        raise _unfit(parameter, text, "the id of a session") from None


def _zone(parameter: Parameter, text: str) -> str:
    try:
        return ZoneInfo(text.strip()).key
    except (ValueError, LookupError, OSError):  # not a name, an unknown one, or a folder of the database
        raise _unfit(parameter, text, "a time zone such as Asia/Shanghai") from None


def _integer(parameter: Parameter, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise _unfit(parameter, text, "a whole number") from None
    if not 0 <= number < 2**31:
        raise _unfit(parameter, text, "a whole number from 0 to 2147483647")
    return number


def _number(parameter: Parameter, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise _unfit(parameter, text, "a number") from None
    if not math.isfinite(number) or not 0 <= number <= 1e6:
        raise _unfit(parameter, text, "a number from 0 to 1000000")
    return number


def _moment(parameter: Parameter, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise _unfit(parameter, text, "a date such as 2025-03-01, or a date and time") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
