"""The wheel: it has the built pages of the console, and neither their sources nor packages of Node.js."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from api.settings import PAGES
from tests.support.paths import ROOT

PAGES_BYTES_MAX = 3_000_000


@pytest.mark.browser  # beside the tests for which the pages are built
@pytest.mark.timeout(600)
def test_the_wheel_has_the_pages_and_not_their_sources(tmp_path: Path) -> None:
    assert (PAGES / "index.html").is_file(), "the pages are not built: `make console`"
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, timeout=500)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = wheel.namelist()
        pages = [wheel.getinfo(name) for name in names if name.startswith("api/console/static/")]
    built = {f"api/console/static/{path.relative_to(PAGES).as_posix()}" for path in PAGES.rglob("*") if path.is_file()}
    assert {each.filename for each in pages} == built
    assert sum(each.file_size for each in pages) <= PAGES_BYTES_MAX
    assert [name for name in names if "node_modules" in name or name.startswith("api/console/web")] == []
    assert {"api/console/serve.py", "api/auth/route_policies.yaml"} <= set(names)
