"""The server serves the built documentation at /docs, and nothing beside it; and the schema of scripts."""

import asyncio
from pathlib import Path

import pytest

from scripts.yaml.json_schema import json_schema
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder as `make docs` builds it, beside a file that is not part of it."""
    site = tmp_path / "site"
    (site / "how-to/deploy").mkdir(parents=True)
    (site / "index.html").write_text("<h1>Documentation</h1>")
    (site / "how-to/deploy/index.html").write_text("<h1>Deploy</h1>")
    (site / "search.json").write_text("{}")
    (tmp_path / "secret.txt").write_text("secret")
    (site / "link.txt").symlink_to(tmp_path / "secret.txt")
    return site


async def test_pages_and_files_are_served(app: OpenApp, site: Path, tmp_path: Path) -> None:
    async with app(tmp_path, docs=site) as api:
        for path, text, media_type in (
            ("/docs/", "<h1>Documentation</h1>", "text/html"),
            ("/docs/how-to/deploy/", "<h1>Deploy</h1>", "text/html"),
            ("/docs/how-to/deploy/index.html", "<h1>Deploy</h1>", "text/html"),
            ("/docs/search.json", "{}", "application/json"),
        ):
            found = await api.get(path)
            assert (found.status_code, found.text) == (200, text)
            assert found.headers["content-type"].split(";")[0] == media_type
            assert found.headers["content-disposition"].startswith("inline")


async def test_browsers_load_nothing_from_other_hosts(app: OpenApp, site: Path, tmp_path: Path) -> None:
    async with app(tmp_path, docs=site) as api:
        headers = (await api.get("/docs/")).headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


async def test_head_has_no_body(app: OpenApp, site: Path, tmp_path: Path) -> None:
    async with app(tmp_path, docs=site) as api:
        found = await api.head("/docs/")
        assert (found.status_code, found.content) == (200, b"")


@pytest.mark.gate
@pytest.mark.parametrize(
    ("path", "location"), [("/docs", "docs/"), ("/docs/how-to/deploy", "deploy/"), ("/docs//how-to/deploy", "deploy/")]
)
async def test_a_folder_without_a_slash_is_redirected(
    path: str, location: str, app: OpenApp, site: Path, tmp_path: Path
) -> None:
    """So that the relative links of its page lead where they are meant to."""
    async with app(tmp_path, docs=site) as api:
        found = await api.get(path)
        assert (found.status_code, found.headers["location"]) == (307, location)


@pytest.mark.gate
@pytest.mark.parametrize(
    "path",
    [
        "/docs/nothing",
        "/docs/how-to",  # a folder without a page
        "/docs/../secret.txt",
        "/docs/%2e%2e/secret.txt",
        "/docs/..%2fsecret.txt",
        "/docs/how-to/..%2f..%2f..%2fsecret.txt",
        "/docs//etc/passwd",
        "/docs/%2fetc%2fpasswd",
        "/docs/link.txt",  # leads out of the folder
        "/docs/%00",
        "/docs/%ed%b0%af",
        f"/docs/{'a' * 1_000}",
    ],
)
async def test_nothing_else_is_served(path: str, app: OpenApp, site: Path, tmp_path: Path) -> None:
    async with app(tmp_path, docs=site) as api:
        found = await api.get(path)
        assert (found.status_code, found.json()["error"]["code"]) == (404, "NOT_FOUND")


async def test_without_a_built_site_the_answer_says_how_to_build_it(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, docs=tmp_path / "site") as api:
        for path in ("/docs", "/docs/", "/docs/glossary/"):
            found = await api.get(path)
            assert (found.status_code, found.json()["error"]["code"]) == (404, "NOT_FOUND")
            assert "make docs" in found.json()["error"]["message"]


@pytest.mark.gate
async def test_documentation_needs_no_key_and_is_not_in_openapi(app: OpenApp, site: Path, tmp_path: Path) -> None:
    async with app(tmp_path, docs=site) as api:
        await api.post("/api/keys", json={"name": "first", "roles": ["admin"]})
        assert (await api.get("/api/sessions")).status_code == 401
        assert (await api.get("/docs/")).status_code == 200
        assert (await api.get("/schema")).status_code == 200
        paths = (await api.get("/schema/openapi.json")).json()["paths"]
        assert [path for path in paths if path.startswith("/docs")] == []


async def test_others_are_answered_while_the_routes_are_described(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, body_bytes_max=987_654) as api:  # a table of routes of its own, which is not described yet
        described = asyncio.create_task(api.get("/schema/openapi.json"))
        await asyncio.sleep(0.01)
        assert (await api.get("/health")).status_code == 200
        assert not described.done()
        assert "/api/sessions" in (await described).json()["paths"]


async def test_the_schema_of_scripts_is_at_an_address_for_editors(api: ApiClient) -> None:
    schema = await api.read("/schema/script.json")
    assert schema == json_schema()
    assert "script" in schema["$defs"]["Script"]["properties"]
