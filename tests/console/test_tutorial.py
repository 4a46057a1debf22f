"""The tutorial in a browser: its steps can be followed, and its script is the one that New script begins with."""

import re
from pathlib import Path

from playwright.async_api import Browser
from tutorial_pictures import FOLDER, follow_tutorial

from tests.console.conftest import OpenPage
from tests.support.server_process import ServerProcess

TUTORIAL = FOLDER.parent / "first-script-in-a-browser.md"


def pictures_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.glob("*.png"))


async def test_every_step_leads_to_the_next(browser: Browser, server: ServerProcess, tmp_path: Path) -> None:
    await follow_tutorial(browser, server.url, tmp_path)
    shown = re.findall(r"\(pictures/(.*?)\)", TUTORIAL.read_text("utf-8"))
    assert sorted(shown) == pictures_in(tmp_path) == pictures_in(FOLDER)


async def test_new_script_is_that_of_the_tutorial(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page("/write/check-in")
    await page.get_by_label("Text of the script").click()
    await page.keyboard.press("Control+End")
    await page.keyboard.insert_text("# saved")
    await page.get_by_text("Saved · unpublished changes").wait_for()
    async with server.client() as api:
        text = (await api.read("/api/drafts/check-in"))["yamlContent"]
    [script] = re.findall(r"```yaml\n# file: check-in.yaml\n(.*?)```", TUTORIAL.read_text("utf-8"), re.DOTALL)
    assert text == f"{script}# saved"
