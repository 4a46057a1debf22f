"""Without Node.js: the wheel has the built pages, and a clone builds them with Node.js from PyPI."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import httpx
import pytest

from api.settings import PAGES
from tests.support.paths import ROOT
from tests.support.ports import free_port

PAGES_BYTES_MAX = 3_000_000
WITHOUT_NODE = "/nonexistent"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this repository."""
    assert (PAGES / "index.html").is_file(), "the pages are not built: `make console`"
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, timeout=500)
    return next(folder.glob("*.whl"))


@pytest.mark.browser  # beside the tests for which the pages are built
@pytest.mark.timeout(600)
def test_the_wheel_has_the_pages_and_not_their_sources(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        pages = [archive.getinfo(name) for name in names if name.startswith("api/console/static/")]
    built = {f"api/console/static/{path.relative_to(PAGES).as_posix()}" for path in PAGES.rglob("*") if path.is_file()}
    assert {each.filename for each in pages} == built
    assert sum(each.file_size for each in pages) <= PAGES_BYTES_MAX
    assert [name for name in names if "node_modules" in name or name.startswith("api/console/web")] == []
    assert {"api/console/serve.py", "api/auth/route_policies.yaml"} <= set(names)


@pytest.mark.browser
@pytest.mark.timeout(600)
def test_an_installed_wheel_shows_the_console_without_node(wheel: Path, tmp_path: Path) -> None:
    site, port = tmp_path / "site", free_port()
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)],
        check=True,
        timeout=200,
    )
    environment = {"PYTHONPATH": str(site), "PATH": WITHOUT_NODE, "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "api.cli.main", "serve", "--port", str(port), "--data", str(tmp_path / "data")]
    server = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    try:
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=httpx.HTTPTransport(retries=20))
        page = client.get("/sessions")
        assert page.status_code == 200
        (script,) = {part.partition('"')[0] for part in page.text.split('src="')[1:]}
        assert client.get(script).headers["content-type"].startswith("text/javascript")
        assert client.get("/api/me").json()["keysRequired"] is False
    finally:
        server.terminate()
        server.wait(timeout=30)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(1_200)
def test_a_clone_builds_the_pages_without_node_on_the_path(tmp_path: Path) -> None:
    clone, environment = tmp_path / "clone", tmp_path / "venv"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        target = clone / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in Path("/usr/bin").iterdir():
        if tool.name not in {"node", "nodejs", "npm", "npx"}:
            (tools / tool.name).symlink_to(tool)
    venv.create(environment, with_pip=True)  # of its own, because Node.js is installed into it
    python = environment / "bin/python"
    packages = tmp_path / "packages"
    packages.mkdir()
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith("nodejs"):
            (packages / package.name).symlink_to(package)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    site.joinpath("ours.pth").write_text(f"{packages}\n")
    built = subprocess.run(
        [str(python), "api/console/web/build.py"],
        cwd=clone,
        env=os.environ | {"PATH": str(tools), "PYTHONPATH": str(clone)},
        capture_output=True,
        text=True,
        timeout=1_000,
    )
    assert built.returncode == 0, built.stderr
    assert "installing it from PyPI" in built.stdout
    assert (clone / "api/console/static/index.html").is_file()
