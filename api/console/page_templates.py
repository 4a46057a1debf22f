"""The templates of HTML pages, which escape all texts."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template


@cache
def page_template(file: Path) -> "Template":
    """Return the template in a file."""
    from jinja2 import Environment, StrictUndefined  # only where a page is rendered

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(file.read_text("utf-8"))
