"""Takes the pictures of the tutorial in a browser: ``make pictures``.

It follows the tutorial step by step, on a server of its own, so the pictures show what a reader sees.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

FOLDER = Path(__file__).parents[1] / "tutorials" / "pictures"
CHROMIUM = "/usr/bin/chromium"
PORT = 8765
START_S = 60.0
SCREEN = {"width": 1080, "height": 640}
PHONE = {"width": 390, "height": 640}


async def follow_tutorial(browser: Browser, url: str, folder: Path) -> None:
    """Follow the tutorial from the first script to the chat page, and take a picture of each step."""
    context = await browser.new_context(viewport=SCREEN, locale="en-US")  # type: ignore[arg-type]
    page = await context.new_page()
    await page.goto(f"{url}/write")
    await page.get_by_role("button", name="New script").click()
    await page.get_by_label("Name").fill("check-in")
    await page.get_by_role("button", name="Begin").click()
    await page.get_by_text("There are no problems.").wait_for()
    await _insert(page, "Let choose", "choose_mood")
    await _insert(page, "Decide", "if_1")
    await page.get_by_text("Saved · unpublished changes").wait_for()
    await page.screenshot(path=folder / "write.png", animations="disabled")
    await _show_a_problem(page, folder)
    await page.get_by_role("button", name="Try it").click()
    await page.get_by_label("Message").fill("Ana")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Not so good").click()
    await page.get_by_text("I am sorry to hear that.").wait_for()
    await page.get_by_text("Answering…").wait_for(state="hidden")
    await page.screenshot(path=folder / "play.png")
    await page.go_back()
    await page.get_by_role("button", name="Share").click()
    address = await page.get_by_label("Address").input_value()
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Publish").click()
    await page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    await page.get_by_text("Version 1 · published").wait_for()
    await _open_chat(browser, address, folder)
    await context.close()


async def _insert(page: Page, action: str, shown: str) -> None:
    """Insert an action, and wait until the outline has it."""
    await page.get_by_label("Insert").select_option(label=action)
    await page.get_by_role("tab", name="Outline").click()
    await page.get_by_role("tabpanel").get_by_text(shown).wait_for()


async def _show_a_problem(page: Page, folder: Path) -> None:
    """Misspell an action at the end, and take it back."""
    await page.get_by_role("tab", name="Problems").click()
    await page.get_by_label("Text of the script").click()
    await page.keyboard.press("Control+End")
    await page.keyboard.insert_text("  - sy: Goodbye.\n")
    await page.get_by_text("Did you mean `say`?").first.wait_for()
    await page.screenshot(path=folder / "problem.png")
    await page.keyboard.press("Control+z")
    await page.get_by_text("There are no problems.").wait_for()


async def _open_chat(browser: Browser, address: str, folder: Path) -> None:
    """Open the address as a participant on a phone would."""
    context = await browser.new_context(viewport=PHONE, locale="en-US")  # type: ignore[arg-type]
    page = await context.new_page()
    await page.goto(address)
    await page.get_by_role("button", name="Begin").click()
    await page.get_by_label("Message").fill("Ana")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Not so good").wait_for()
    await page.screenshot(path=folder / "chat.png")
    await context.close()


@asynccontextmanager
async def _server() -> AsyncIterator[str]:
    """Run a server with the examples, as `make run` does, with a database of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "api.cli.main", "serve", "--port", str(PORT), "--data", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: ASYNC220, S603
        try:
            await asyncio.to_thread(_wait, f"http://127.0.0.1:{PORT}/ready")
            yield f"http://127.0.0.1:{PORT}"
        finally:
            process.terminate()
            process.wait()


def _wait(url: str) -> None:
    """Wait until a server answers. Raises TimeoutError."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(url, timeout=1).close()  # noqa: S310
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"{url} did not answer within {START_S:.0f} s")


async def main() -> None:
    """Take all pictures."""
    FOLDER.mkdir(exist_ok=True)
    async with _server() as url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        await follow_tutorial(browser, url, FOLDER)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
