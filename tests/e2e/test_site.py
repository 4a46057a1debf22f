"""The site of the documentation has every page, its links work, and its pages load nothing from other hosts."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ZENSICAL = Path(sys.executable).with_name("zensical")

needs_zensical = pytest.mark.skipif(not ZENSICAL.exists(), reason="needs zensical: `make docs` installs it")


class Loads(HTMLParser):
    """Collects what a browser loads with a page: scripts, styles, fonts, pictures; not what a reader may follow."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag != "a" and values.get("rel") != "canonical":
            self.found += [text for name in ("src", "href", "srcset", "data", "poster") if (text := values.get(name))]


def pages_of(navigation: list[Any]) -> Iterator[str]:
    for entry in navigation:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from pages_of([below] if isinstance(below, str) else below)


def test_navigation_lists_the_pages_of_the_index_in_its_order() -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    linked = re.findall(r"^ *- \[[^]]*\]\(([^)#]+\.md)\)$", (ROOT / "docs/index.md").read_text("utf-8"), re.MULTILINE)
    assert list(pages_of(settings["project"]["nav"])) == ["index.md", *linked]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does, in a folder of its own; links that lead nowhere fail the build."""
    folder = tmp_path_factory.mktemp("documentation")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "zensical.toml", folder)
    done = subprocess.run(
        [ZENSICAL, "build", "--clean", "--strict"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@needs_zensical
@pytest.mark.slow
def test_every_page_is_built(site: Path) -> None:
    names = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}
    expected = {
        (site / name).with_name("index.html") if name.name == "index" else site / name / "index.html" for name in names
    }
    assert {page for page in expected if not page.exists()} == set()
    assert (site / "search.json").exists()
    assert list(site.rglob("*.py")) == []


@needs_zensical
@pytest.mark.slow
def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    loaded = set()
    for page in site.rglob("*.html"):
        parser = Loads()
        parser.feed(page.read_text("utf-8"))
        loaded |= {(page.name, address) for address in parser.found if re.match(r"(\w+:)?//", address)}
    for style in site.rglob("*.css"):
        addresses = re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]*)", style.read_text("utf-8"))
        loaded |= {(style.name, address) for address in addresses}
    assert loaded == set()


@needs_zensical
@pytest.mark.slow
def test_no_page_needs_a_script_that_the_theme_would_fetch(site: Path) -> None:
    """The theme's own script fetches renderers for diagrams, galleries and live code if a page has one."""
    fetching = ('class="mermaid"', "glightbox", "pyodide", 'class="arithmatex"')
    assert [page for page in site.rglob("*.html") if any(each in page.read_text("utf-8") for each in fetching)] == []


@needs_zensical
@pytest.mark.slow
def test_blocks_and_lists_are_read_as_a_forge_reads_them(site: Path) -> None:
    """No paragraph shows the marks of a list, a table or a fence as text."""
    marks = re.compile(r"^(\s*([-*]|\d+\.) |\||```|~~~)", re.MULTILINE)
    shown = {}
    for page in site.rglob("index.html"):
        paragraphs = re.findall(r"<p>(.*?)</p>", page.read_text("utf-8"), re.DOTALL)
        if found := [text[:80] for text in paragraphs if "<pre" not in text and marks.search(text)]:
            shown[str(page.relative_to(site))] = found
    assert shown == {}
