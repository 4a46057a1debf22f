"""Chromium, and a server with the built pages: ``make console`` and ``make .venv/console`` prepare both."""

from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TypeAlias

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from api.settings import KEY_FILE, PAGES
from tests.support.command_forker import Forker
from tests.support.server_process import ServerProcess, start_cuebook

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WAIT_MS = 40_000  # the first refresh of the analytics takes long beside other tests
# what a page must never do, noted from before its first script on
WATCH = """
window.noted = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.noted.push(`${event.violatedDirective} ${event.blockedURI}`));
window.alert = (text) => window.noted.push(`alert ${text}`);
"""

OpenPage: TypeAlias = Callable[..., Awaitable[Page]]
"""Open a page of the console: ``page = await open_page("/play", width=360)``."""
Restart: TypeAlias = Callable[..., Awaitable[ServerProcess]]
"""Stop the server, and start one on the same folder with further variables: ``again = await restart(NAME="text")``."""
NewKey: TypeAlias = Callable[..., Awaitable[str]]
"""Create a key with these roles, for one user or for all; return its text."""


async def begin_long_session(server: ServerProcess) -> str:
    """Begin a session with 230 lines, of which a page of messages has 200, and a question; return its id."""
    says = "".join(f"  - say: Line {number}.\n" for number in range(1, 231))
    async with server.client() as api:
        await api.publish_script(f"cuebook: 1\nscript: long\nactions:\n{says}  - ask: Well?\n", strict=False)
        session = await api.create_session("long")
    return str(session["sessionId"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder; they share the event loop of their browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if isinstance(item, pytest.Function) and iscoroutinefunction(item.function):
                item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(loop_scope="session")
async def server(tmp_path: Path, command_forker: Forker) -> AsyncIterator[ServerProcess]:
    """Start a server with the scripts of the tests."""
    assert (PAGES / "index.html").is_file(), "the pages are not built: `make console`"
    process = ServerProcess(tmp_path, start=command_forker.start)
    await process.ready()
    yield process
    await process.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def restart(server: ServerProcess, command_forker: Forker) -> AsyncIterator[Restart]:
    """Start servers in the place of the first one; they are stopped after the test."""
    started: list[ServerProcess] = []

    async def start_again(**environment: str) -> ServerProcess:
        await server.stop()
        # a fork cannot load a library that is named when a process starts
        start = start_cuebook if "LD_PRELOAD" in environment else command_forker.start
        started.append(ServerProcess(server.folder, start=start, **environment))
        await started[-1].ready()
        return started[-1]

    yield start_again
    for process in started:
        await process.stop()


@pytest.fixture
def new_key(server: ServerProcess) -> NewKey:
    """Create a key with the operator's key."""

    async def create(*roles: str, user: str | None = None) -> str:
        operator = (server.folder / "data" / KEY_FILE).read_text()
        async with server.client() as api:
            body = {"name": "a browser of a counsellor in the second office", "roles": roles, "userId": user}
            answer = await api.post("/api/keys", json=body, headers={"Authorization": f"Bearer {operator}"})
            return str(answer.json()["key"])

    return create


async def sign_in(page: Page, key: str) -> None:
    """Enter a key where the console asks for one."""
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Sign in").click()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Start one browser for all tests of the process; each test has a context of its own, without cookies of others."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(server: ServerProcess, browser: Browser) -> AsyncIterator[OpenPage]:
    """Open pages of one visitor; at the end, none may have broken the content security policy or thrown an error."""
    context = await browser.new_context(locale="en-US")
    context.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    await context.add_init_script(WATCH)
    errors: list[str] = []

    async def open_at(path: str, *, width: int = 1280, theme: str = "light") -> Page:
        page = await context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        await page.set_viewport_size({"width": width, "height": 900})
        await page.goto(server.url + path)
        return page

    yield open_at
    noted = [each for page in context.pages for each in await page.evaluate("window.noted")]
    await context.close()
    assert (noted, errors) == ([], [])
