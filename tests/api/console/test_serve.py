"""The server has the pages of the console at `/`, and its other addresses are as before."""

from pathlib import Path

import pytest

from tests.support.fixture_types import OpenApp

PAGE = "<!doctype html><title>Cuebook</title>"


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Return a folder as `make console` builds it, beside a file that is not part of it."""
    folder = tmp_path / "pages"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "assets/index-1a2b.js").write_text("start();" * 100)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "assets/link.txt").symlink_to(tmp_path / "secret.txt")
    return folder


@pytest.mark.gate
@pytest.mark.parametrize("path", ["/", "/sessions", "/sessions/0b8a4a4e", "/play", "/play/0b8a4a4e", "/sign-in"])
async def test_every_screen_is_the_page(app: OpenApp, pages: Path, tmp_path: Path, path: str) -> None:
    async with app(tmp_path, console=pages) as api:
        found = await api.get(path)
        assert (found.status_code, found.text) == (200, PAGE)
        assert found.headers["content-type"].startswith("text/html")
        assert found.headers["cache-control"] == "no-cache"


async def test_pages_may_run_and_load_only_their_own(app: OpenApp, pages: Path, tmp_path: Path) -> None:
    async with app(tmp_path, console=pages) as api:
        headers = (await api.get("/")).headers
        policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")


async def test_hashed_files_are_cached_and_compressed(app: OpenApp, pages: Path, tmp_path: Path) -> None:
    async with app(tmp_path, console=pages) as api:
        found = await api.get("/assets/index-1a2b.js", headers={"Accept-Encoding": "gzip"})
        assert (found.text, found.headers["content-encoding"]) == ("start();" * 100, "gzip")
        assert "immutable" in found.headers["cache-control"]
        assert found.headers["content-type"].startswith("text/javascript")
        plain = await api.get("/assets/index-1a2b.js", headers={"Accept-Encoding": "identity"})
        assert (plain.text, plain.headers.get("content-encoding")) == (found.text, None)


async def test_an_unchanged_page_is_not_sent_again(app: OpenApp, pages: Path, tmp_path: Path) -> None:
    async with app(tmp_path, console=pages) as api:
        etag = (await api.get("/")).headers["etag"]
        again = await api.get("/", headers={"If-None-Match": etag})
        assert (again.status_code, again.content) == (304, b"")
        (pages / "index.html").write_text("<!doctype html>new")
        assert (await api.get("/", headers={"If-None-Match": etag})).text == "<!doctype html>new"


@pytest.mark.parametrize("name", ["none.js", "link.txt", "../../secret.txt", "%2e%2e/%2e%2e/secret.txt", "x" * 5_000])
async def test_no_file_outside_the_pages(app: OpenApp, pages: Path, tmp_path: Path, name: str) -> None:
    async with app(tmp_path, console=pages) as api:
        found = await api.get(f"/assets/{name}")
        assert (found.status_code, "secret" in found.text) == (404, False)


async def test_without_pages_the_server_says_how_to_build(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, console=tmp_path / "none") as api:
        found = await api.get("/")
        assert (found.status_code, found.headers["content-type"].split(";")[0]) == (503, "text/plain")
        assert "make console" in found.text
        assert (await api.get("/api/sessions")).status_code == 200


@pytest.mark.parametrize("path", ["/api/nothing", "/nothing", "/session"])
async def test_other_addresses_are_no_screens(app: OpenApp, pages: Path, tmp_path: Path, path: str) -> None:
    async with app(tmp_path, console=pages) as api:
        found = await api.get(path)
        assert (found.status_code, found.json()["error"]["code"]) == (404, "NOT_FOUND")


async def test_browser_gets_the_page_for_an_unknown_address(app: OpenApp, pages: Path, tmp_path: Path) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    async with app(tmp_path, console=pages) as api:
        await api.create_key("app")
        found = await api.get("/sessionz", headers=browser)
        assert (found.status_code, found.text) == (404, PAGE)
        assert "default-src 'none'" in found.headers["content-security-policy"]
        again = await api.get("/sessionz", headers=browser | {"If-None-Match": found.headers["etag"]})
        assert (again.status_code, again.text) == (404, PAGE)
        assert (await api.get("/api/sessionz", headers=browser)).json()["error"]["code"] == "NOT_FOUND"


async def test_pages_need_no_key(app: OpenApp, pages: Path, tmp_path: Path) -> None:
    async with app(tmp_path, console=pages) as api:
        await api.create_key("app")
        assert (await api.get("/")).status_code == (await api.get("/assets/index-1a2b.js")).status_code == 200
        assert (await api.get("/api/sessions")).status_code == 401
