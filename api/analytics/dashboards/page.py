"""Renders a dashboard as one HTML page that needs nothing else: no script, no address of another host."""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from api.analytics.charts.chart import report_texts
from api.analytics.formats.readable import label
from api.schemas.analytics import Language

if TYPE_CHECKING:
    from jinja2 import Template


_ENGLISH: Final = {
    "definition": "Definition",
    "more_rows": "and {count} more rows",
    "late": "not computed, because the page took more than {seconds:g} s",
}


class Part(Struct, frozen=True, kw_only=True):
    """A computed tile, or why it could not be computed."""

    title: str
    about: str = ""
    sql: str = ""
    is_wide: bool = False
    chart: bytes = b""
    """An SVG picture; empty: the result cannot be drawn."""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    rows_hidden: int = 0
    """The rows beyond those that are shown."""
    problem: str = ""


def page_words(language: Language) -> Mapping[str, str]:
    """Return the words of a page in a language."""
    return _ENGLISH if language == "en" else report_texts(language)["page"]


def dashboard_page(name: str, parts: Sequence[Part], now: datetime, language: Language) -> str:
    """Return the HTML page. All texts are escaped, and charts are pictures, which run no scripts."""
    written = f"{now.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    words = page_words(language)
    return _template().render(
        name=name, parts=parts, written=written, picture=_picture, label=label, words=words, language=language
    )


def _picture(chart: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(chart).decode()


@cache
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined  # only where a page is rendered

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(Path(__file__).with_name("page.html").read_text("utf-8"))
