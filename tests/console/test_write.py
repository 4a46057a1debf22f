"""Write: an author makes a script in a browser, tries it, shares it and publishes it."""

import asyncio
import re
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Dialog, Page, Route, expect

from tests.console.conftest import NewKey, OpenPage, sign_in
from tests.console.test_quality import violations
from tests.support.server_process import ServerProcess

TALK = "cuebook: 1\nscript: talk\nactions:\n  - say: One.\n  - say: Two.\n"


def text_of(page: Page):
    return page.get_by_label("Text of the script")


async def open_new(open_page: OpenPage, name: str = "my talk") -> Page:
    page = await open_page("/write")
    await page.get_by_role("button", name="New script").click()
    await page.get_by_label("Name").fill(name)
    await page.get_by_role("button", name="Begin").click()
    await expect(text_of(page)).to_contain_text("What is your name?")
    return page


async def write_at_end(page: Page, text: str) -> None:
    await text_of(page).click()
    await page.keyboard.press("Control+End")
    await page.keyboard.insert_text(text)


async def is_saved(page: Page) -> None:
    await expect(page.get_by_text("Saved · unpublished changes")).to_be_visible()


async def tab(page: Page, name: str) -> None:
    await page.get_by_role("tab", name=name).click()


@pytest.mark.gate
async def test_first_script_is_written_tried_shared_and_published(open_page: OpenPage) -> None:
    page = await open_new(open_page)
    await page.get_by_label("Insert").select_option(label="Let choose")
    await expect(text_of(page)).to_contain_text("How are you today?")
    await tab(page, "Outline")
    await expect(page.get_by_role("tabpanel")).to_contain_text("choose_mood")
    await page.get_by_role("button", name="Share").click()
    address = await page.get_by_label("Address").input_value()
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Try it").click()
    await page.get_by_label("Message").fill("Ana")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Not so good").click()
    await expect(page.get_by_text("The conversation is over.").first).to_be_visible()
    await page.go_back()
    await page.get_by_role("button", name="Publish").click()
    await page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    await expect(page.get_by_text("Version 1 · published")).to_be_visible()
    participant = await open_page(urlsplit(address).path)
    await participant.get_by_role("button", name="Begin").click()
    await expect(participant.get_by_role("log")).to_contain_text("What is your name?")


async def test_script_name_is_unique_before_the_list_is_shown(open_page: OpenPage) -> None:
    is_asked = asyncio.Event()

    async def answer_late(route: Route) -> None:
        await is_asked.wait()
        await route.continue_()

    page = await open_page("/write")
    await page.route("**/api/drafts?*", answer_late)
    await page.reload()
    await page.get_by_role("button", name="New script").click()
    await page.get_by_label("Name").fill("visit")
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_role("button", name="Begin")).to_be_disabled()
    is_asked.set()
    await expect(page.get_by_role("dialog")).to_contain_text("There is a script of this name already.")


async def test_script_name_is_unique_while_lists_fail(open_page: OpenPage) -> None:
    page = await open_page("/write")
    await page.route("**/api/drafts?*", lambda route: route.abort("connectionreset"))
    await page.reload()
    await page.get_by_role("button", name="New script").click()
    await page.get_by_label("Name").fill("visit")
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_role("dialog")).to_contain_text("The server does not answer")
    await page.unroute("**/api/drafts?*")
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_role("dialog")).to_contain_text("There is a script of this name already.")


async def test_script_name_is_unique_and_a_wrong_address_saves_none(open_page: OpenPage) -> None:
    page = await open_page("/write")
    await page.get_by_role("button", name="New script").click()
    await page.get_by_label("Name").fill("visit")
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_role("dialog")).to_contain_text("There is a script of this name already.")
    await page.goto(page.url + "/vsit")
    await expect(page.get_by_text("New; your first change saves it")).to_be_visible()
    await expect(page.get_by_text("Saved", exact=True)).to_have_count(0)


async def test_fix_without_a_choice_is_one_click_in_its_file(open_page: OpenPage) -> None:
    page = await open_new(open_page)
    await write_at_end(page, "  - sy: Bye 😀 {{ nme }}\n")
    panel = page.get_by_role("tabpanel")
    await panel.get_by_role("button", name="Write say").press("Enter")
    await expect(text_of(page)).to_contain_text("- say: Bye 😀 {{ nme }}")
    await expect(text_of(page)).to_be_focused()
    await panel.get_by_role("button", name="Write name").click()
    await expect(text_of(page)).to_contain_text("Bye 😀 {{ name }}")
    await expect(panel).to_contain_text("There are no problems.")
    await page.keyboard.press("Control+z")
    await expect(text_of(page)).to_contain_text("Bye 😀 {{ nme }}")
    await page.get_by_role("button", name="Add a file").click()
    await page.get_by_label("Name").fill("more")
    await page.get_by_role("button", name="Begin").click()
    await page.get_by_label("File").select_option("")
    await text_of(page).click()
    await page.keyboard.press("Control+Home")
    await page.keyboard.insert_text("use: [more.yaml]\n")
    await page.get_by_label("File").select_option(label="more.yaml")
    await write_at_end(page, "forms: [{form: contact, feilds: [name]}]\n")
    await page.get_by_label("File").select_option("")
    await panel.get_by_role("button", name="Write fields").click()
    await expect(page.get_by_label("File")).to_have_value("more.yaml")
    await expect(text_of(page)).to_contain_text("fields: [name]")


async def test_text_that_names_another_script_says_so(open_page: OpenPage) -> None:
    page = await open_new(open_page)
    await expect(page.get_by_text("It becomes a version of that script.")).to_have_count(0)
    await text_of(page).click()
    await page.keyboard.press("Control+a")
    await page.keyboard.press("Backspace")
    await page.keyboard.insert_text(TALK.replace("script: talk", "script: visit"))
    await expect(page.get_by_text("The text says script: visit.")).to_be_visible()
    await page.keyboard.press("Control+Home")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("End")
    await page.keyboard.type("2")
    await expect(page.get_by_text("The text says script: visit2.")).to_be_visible()
    await page.keyboard.press("Control+Backspace")
    await page.keyboard.type("my-talk")
    await expect(page.get_by_text("It becomes a version of that script.")).to_have_count(0)


async def test_text_is_checked_again_after_the_server_did_not_answer(open_page: OpenPage) -> None:
    page = await open_new(open_page)
    await expect(page.get_by_role("tabpanel")).to_contain_text("There are no problems.")
    await page.route("**/api/scripts/validate", lambda route: route.abort("connectionreset"), times=1)
    await write_at_end(page, "  - sy: Bye.\n")
    await expect(page.get_by_role("tabpanel")).to_contain_text("Checking…")
    await expect(page.get_by_role("tabpanel")).to_contain_text("Did you mean `say`?")


@pytest.mark.gate
async def test_problems_are_marked_explained_and_lead_to_their_line(open_page: OpenPage) -> None:
    page = await open_new(open_page)
    await write_at_end(page, "  - sy: Bye.\n")
    panel = page.get_by_role("tabpanel")
    await expect(panel).to_contain_text("Did you mean `say`?")
    await expect(page.get_by_role("button", name="Publish")).to_be_disabled()
    await page.keyboard.press("Control+Home")
    await panel.get_by_role("button", name="line 7").click()
    await expect(text_of(page)).to_be_focused()
    await page.keyboard.press("End")
    await page.keyboard.type(" now")
    await expect(text_of(page)).to_contain_text("sy: Bye. now")
    await page.get_by_label("Language").select_option("zh")
    await expect(panel).to_contain_text("没有这个名称的动作。")
    await expect(panel).to_contain_text("Did you mean `say`?")


@pytest.mark.gate
async def test_text_is_saved_as_it_is_written_with_its_errors(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_new(open_page)
    await write_at_end(page, "  - sy: Bye.\n")
    await is_saved(page)
    again = await open_page("/write")
    await again.get_by_role("link", name="my-talk").click()
    await expect(text_of(again)).to_contain_text("sy: Bye.")
    async with server.client() as api:
        assert "sy: Bye." in (await api.read("/api/drafts/my-talk"))["yamlContent"]


@pytest.mark.gate
async def test_two_tabs_do_not_overwrite_each_other(open_page: OpenPage, server: ServerProcess) -> None:
    first = await open_new(open_page)
    await write_at_end(first, "  - say: First.\n")
    await is_saved(first)
    second = await open_page("/write/my-talk")
    await expect(text_of(second)).to_contain_text("First.")
    await write_at_end(second, "  - say: Second.\n")
    await is_saved(second)
    await write_at_end(first, "  - say: Third.\n")
    await expect(first.get_by_text("Somebody else changed this script meanwhile.")).to_be_visible()
    await first.get_by_role("button", name="Take theirs").click()
    await expect(text_of(first)).to_contain_text("Second.")
    await expect(text_of(first)).not_to_contain_text("Third.")
    await write_at_end(second, "  - say: Fourth.\n")
    await is_saved(second)
    await write_at_end(first, "  - say: Fifth.\n")
    await first.get_by_role("button", name="Keep mine").click()
    await is_saved(first)
    async with server.client() as api:
        text = (await api.read("/api/drafts/my-talk"))["yamlContent"]
    assert ("Fifth." in text, "Fourth." in text) == (True, False)


async def test_changes_without_an_answer_stay_and_are_sent_again(open_page: OpenPage) -> None:
    page = await open_new(open_page)
    await page.context.set_offline(True)
    await write_at_end(page, "  - say: Late.\n")
    await expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    await expect(page.get_by_text("Not saved", exact=True)).to_be_visible()
    await page.context.set_offline(False)
    await page.get_by_role("button", name="Try again").click()
    await is_saved(page)


async def test_save_whose_answer_is_lost_is_no_conflict(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_new(open_page)

    async def lose_answer(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await page.route("**/api/drafts/my-talk", lose_answer, times=1)
    await write_at_end(page, "  - say: First.\n")
    await expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    await write_at_end(page, "  - say: Second.\n")
    await is_saved(page)
    async with server.client() as api:
        assert "Second." in (await api.read("/api/drafts/my-talk"))["yamlContent"]


@pytest.mark.gate
async def test_changes_of_a_published_script_can_be_discarded(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(TALK)
        await api.publish_script(TALK.replace("Two", "Three"))
    page = await open_page("/write/talk")
    await tab(page, "Versions")
    await page.get_by_role("button", name="Compare 2").click()
    await expect(page.get_by_role("tabpanel")).to_contain_text("+  - say: Three.")
    await write_at_end(page, "  - say: Four.\n")
    await is_saved(page)
    await page.get_by_role("button", name="Discard the changes").click()
    await page.get_by_role("dialog").get_by_role("button", name="Discard the changes").click()
    await expect(text_of(page)).not_to_contain_text("Four.")
    await tab(page, "Versions")
    await page.get_by_role("button", name="Publish 1").click()
    await page.get_by_role("dialog", name="Publish version 1?").get_by_role("button", name="Publish").click()
    await expect(page.get_by_role("tabpanel")).to_contain_text("Version 2 not published")
    for path in ("/write/talk", "/write"):  # both say which version new sessions run
        await page.goto(server.url + path)
        last = page.get_by_text("Version 2 · not published")
        await expect(last.locator("..")).to_contain_text("Version 1 · published")


async def test_include_files_are_written_beside_the_script(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_new(open_page)
    await page.get_by_role("button", name="Add a file").click()
    await page.get_by_label("Name").fill("more")
    await page.get_by_role("dialog").get_by_role("button", name="Begin").click()
    await write_at_end(page, "skills:\n  - skill: bye\n    actions:\n      - sy: Bye.\n")
    await page.get_by_label("File").select_option("")
    await write_at_end(page, "use: [more.yaml]\n")
    await page.get_by_role("tabpanel").get_by_role("button", name="more.yaml, line 5").click()
    await expect(page.get_by_label("File")).to_have_value("more.yaml")
    await is_saved(page)
    async with server.client() as api:
        assert "skill: bye" in (await api.read("/api/drafts/my-talk"))["files"]["more.yaml"]
    remove = page.get_by_role("button", name="Remove this file")
    await remove.click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    await expect(page.get_by_label("File")).to_have_value("more.yaml")
    await remove.click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove this file").click()
    await expect(remove).to_have_count(0)


async def test_part_at_the_cursor_is_marked_in_the_outline(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(TALK)
    page = await open_page("/write/talk")
    await tab(page, "Outline")
    await page.get_by_role("tabpanel").get_by_role("button", name="say_2").click()
    await expect(page.locator("[aria-current=true]")).to_contain_text("say_2")
    await page.keyboard.press("ArrowUp")
    await expect(page.locator("[aria-current=true]")).to_contain_text("say_1")
    await tab(page, "Picture")
    await expect(page.get_by_alt_text("The ways through talk; the outline has them as text")).to_be_visible()
    await page.get_by_role("link", name="← Write").click()
    await expect(page.get_by_role("button", name="New script")).to_be_visible()
    await page.go_back()
    await expect(page.get_by_role("tab", name="Picture", selected=True)).to_be_visible()
    assert page.url.endswith("/write/talk?side=picture")


async def test_keyboard_leaves_the_text_with_tab(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_new(open_page)
    await text_of(page).click()
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.shadowRoot === null")


async def test_authors_alone_see_the_screen(open_page: OpenPage, new_key: NewKey) -> None:
    keys = await asyncio.gather(new_key("analyst"), new_key("author"))
    page = await open_page("/write")
    await sign_in(page, keys[0])
    await expect(page.get_by_role("main")).to_contain_text("author")
    await page.get_by_role("button", name="Sign out").click()
    await sign_in(page, keys[1])
    await expect(page.get_by_role("button", name="New script")).to_be_visible()


async def test_script_of_2000_actions_is_edited_and_drawn(open_page: OpenPage, server: ServerProcess) -> None:
    topics = "".join(
        f"      - topic: t{topic}\n        actions:\n"
        + "".join(f"          - say: Text {number}.\n" for number in range(20))
        for topic in range(100)
    )
    async with server.client() as api:
        await api.publish_script(f"cuebook: 1\nscript: talk\nphases:\n  - phase: main\n    topics:\n{topics}")
    page = await open_page("/write/talk")
    await write_at_end(page, "          - say: The last one.\n")
    await tab(page, "Outline")
    last = page.get_by_role("tabpanel").get_by_role("button", name="The last one.")
    await expect(last).to_be_attached()
    await last.click()
    await expect(page.locator(".cm-activeLine")).to_contain_text("The last one.")
    await tab(page, "Picture")
    await expect(page.get_by_role("img")).to_be_visible()
    await is_saved(page)


def options(page: Page):
    return page.locator(".cm-tooltip-autocomplete li")


async def test_keys_values_and_names_are_completed_where_possible(open_page: OpenPage, server: ServerProcess) -> None:
    text = (
        "cuebook: 1\nscript: talk\nphases:\n  - phase: main\n    topics:\n      - topic: begin\n        actions:\n"
        "          - choose: How?\n            into: mood\n            choices:\n              - good: Good\n"
        "              - key: low\n                text: Low\n      - topic: close\n        actions:\n"
        "          - say: Bye.\n"
    )
    async with server.client() as api:
        await api.publish_script(text)
    page = await open_page("/write/talk")
    await text_of(page).click()

    async def typed(line: str) -> list[str]:
        """Return what is offered for a line that is written at the end, and remove it."""
        await page.keyboard.press("Control+End")
        await page.keyboard.insert_text(line[:-1])
        await page.keyboard.type(line[-1])
        await expect(options(page).first).to_be_visible()
        found = await options(page).all_text_contents()
        await page.keyboard.press("Escape")
        for key in ("Shift+Home", "Shift+Home", "Delete"):  # to the indent, to the start of the line
            await page.keyboard.press(key)
        return found

    actions = await typed("          - c")
    assert {"choose", "chat", "call"} <= set(actions)
    assert "cuebook" not in actions
    assert "acknowledge" in await typed("            a")
    assert "ask" not in await typed("            a")
    assert await typed("            acknowledge: t") == ["true"]
    assert "title" in await typed("        t")
    assert await typed("          - goto: b") == ["begin"]
    assert "roles" in await typed("r")


@pytest.mark.gate
async def test_completion_is_chosen_with_the_keyboard_and_explained(open_page: OpenPage) -> None:
    page = await open_new(open_page)
    await write_at_end(page, "  - ")
    await page.keyboard.type("choos")
    await expect(options(page).first).to_have_text("choose")
    await expect(page.locator(".cm-completionInfo")).not_to_be_empty()
    await page.wait_for_timeout(500)  # the editor takes no key for a list that has just appeared
    await page.keyboard.press("Enter")
    await expect(text_of(page)).to_contain_text("- choose:")
    await page.locator(".cm-line").filter(has_text="into").first.get_by_text("into").hover()
    await expect(page.locator(".cm-meaning")).to_contain_text("Where the answer is stored: a variable")


@pytest.mark.gate
async def test_cases_run_after_each_change_and_show_missing_coverage(open_page: OpenPage) -> None:
    page = await open_new(open_page)
    panel = page.get_by_role("tabpanel")
    await tab(page, "Cases")
    await panel.get_by_role("button", name="Add a case").click()
    await expect(text_of(page)).to_contain_text("script: my-talk.yaml")
    await expect(panel.get_by_role("status")).to_have_text("1 of 1 case passes")
    await expect(panel).to_contain_text("1 / 1")
    await write_at_end(page, '  - name: a name\n    turns:\n      - {}\n      - {say: Ana, expect: ["Hello Ben."]}\n')
    await expect(panel.get_by_role("status")).to_have_text("1 of 2 cases pass")
    await expect(panel).to_contain_text("Hello Ben.")
    await page.get_by_label("File").select_option("")
    await write_at_end(page, "  - if: name == 'Ben'\n    then:\n      - {say: Welcome back., id: back}\n")
    await panel.get_by_role("button").filter(has_text="/back").click()
    await page.keyboard.press("End")
    await page.keyboard.insert_text(" # here")
    await expect(text_of(page)).to_contain_text("id: back} # here")


async def test_picture_leads_to_a_line_and_the_cursor_marks_its_part(open_page: OpenPage) -> None:
    page = await open_new(open_page)
    await write_at_end(page, "  - {say: Good luck., id: luck}\n  - {say: Bye., id: bye}\n")
    await tab(page, "Picture")
    luck = page.get_by_role("tabpanel").get_by_role("button", name="say luck")
    await luck.click()
    await expect(luck).to_have_attribute("aria-current", "true")
    await page.get_by_label("Insert").select_option(label="Say something")
    text = (await text_of(page).inner_text()).replace("\n\n", "\n")
    assert text.index("id: luck") < text.rindex("say:", 0, text.index("id: bye")) <= text.index("Bye.")
    assert text.count("- ") == 5


async def test_unsaved_text_is_not_left_without_a_question(open_page: OpenPage) -> None:
    page = await open_new(open_page)
    await page.route("**/api/drafts/*", lambda route: route.abort("connectionreset"))
    await write_at_end(page, "\n# not saved")
    await expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    questions: list[str] = []

    async def stay(dialog: Dialog) -> None:
        questions.append(dialog.type)
        await dialog.dismiss()

    page.on("dialog", stay)
    await page.get_by_role("link", name="Sessions").click()
    await expect(text_of(page)).to_contain_text("# not saved")
    async with page.expect_event("dialog"):
        await page.evaluate("history.back()")
    await expect(text_of(page)).to_contain_text("# not saved")
    assert questions == ["beforeunload", "confirm"]
    await page.unroute("**/api/drafts/*")
    await page.get_by_role("alert").get_by_role("button", name="Try again").click()
    await is_saved(page)
    await page.get_by_role("link", name="Sessions").click()
    await expect(page.get_by_role("heading", level=1, name="Sessions")).to_be_visible()


async def test_every_script_is_listed(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        for number in range(201):
            body = {"yamlContent": f"cuebook: 1\nscript: s{number}\nactions:\n  - say: Hello.\n"}
            assert (await api.put(f"/api/drafts/s{number}", json=body)).is_success
    page = await open_page("/write")
    await expect(page.get_by_role("link", name="s0 ")).to_be_visible()
    await expect(page.get_by_role("link", name="s200 ")).to_be_visible()


async def test_outline_and_picture_follow_a_running_session(open_page: OpenPage) -> None:
    play = await open_page("/play")
    await play.get_by_label("Script").select_option("visit")
    await play.get_by_role("button", name="Begin").click()
    async with play.context.expect_page() as opened:
        await play.get_by_role("link", name="In the script").click()
    page = await opened.value
    here = page.get_by_role("button", name="the session is here")
    await expect(here).to_have_accessible_name(re.compile("ask_name"))
    assert await violations(page) == []
    await play.get_by_label("Message").fill("Ana")
    await play.keyboard.press("Enter")
    await expect(here).not_to_have_accessible_name(re.compile("ask_name"))
    await tab(page, "Outline")
    await expect(here).to_have_count(1)
    await page.get_by_label("Follow a session").select_option(label="Nothing")
    await expect(here).to_have_count(0)


async def test_cases_that_share_a_line_are_all_shown(open_page: OpenPage, server: ServerProcess) -> None:
    cases = "script: pair.yaml\ncases: [{name: one, turns: [{expect: ['*']}]}, {name: two, turns: [{expect: ['*']}]}]\n"
    text = "cuebook: 1\nscript: pair\nactions:\n  - say: Hello.\n"
    async with server.client() as api:
        answer = await api.put("/api/drafts/pair", json={"yamlContent": text, "files": {"pair.case.yaml": cases}})
        assert answer.is_success
    page = await open_page("/write/pair")
    await tab(page, "Cases")
    await expect(page.get_by_role("tabpanel").get_by_role("button", name="two")).to_be_visible()
    await expect(page.get_by_role("tabpanel").get_by_role("button", name="one")).to_be_visible()
    await write_at_end(page, "  - sy: Oops.")
    await expect(page.get_by_text("The cases run once the script has no errors.")).to_be_visible()
