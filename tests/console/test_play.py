"""Play: somebody talks to a script in a browser."""

import asyncio
import re

import pytest
from playwright.async_api import Page, Route, expect

from tests.console.conftest import OpenPage, Restart, begin_long_session
from tests.support.openai_server import Endpoint
from tests.support.server_process import ServerProcess


async def begin(page: Page, script: str = "visit") -> None:
    await page.get_by_label("Script").select_option(script)
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_label("Message")).to_be_visible()


async def say(page: Page, text: str) -> None:
    await page.get_by_label("Message").fill(text)
    await page.keyboard.press("Enter")


@pytest.mark.gate
async def test_a_conversation_from_begin_to_end(open_page: OpenPage) -> None:
    page = await open_page("/play")
    await begin(page)
    said = page.get_by_role("log")
    await expect(said).to_contain_text("What may I call you?")
    await say(page, "Ana")
    await expect(said).to_contain_text("How old are you, Ana?")
    await say(page, "old")
    await expect(said).to_contain_text("A number from 1 to 120, please.")
    await say(page, "41")
    await page.get_by_role("button", name="so so").click()
    await expect(said).to_contain_text("Noted as B, Ana.")
    await page.get_by_role("button", name="Go on, please.").click()
    await expect(said).to_contain_text("Ready?")
    await say(page, "yes")
    await expect(page.get_by_text("The conversation is over.").first).to_be_visible()


async def test_a_reply_sent_too_early_waits_for_the_answer(open_page: OpenPage) -> None:
    page = await open_page("/play")
    await begin(page)
    may_answer = asyncio.Event()

    async def answer_later(route: Route) -> None:
        await may_answer.wait()
        await route.continue_()

    await page.route("**/messages", answer_later, times=1)
    await say(page, "Ana")
    await say(page, "41")
    await expect(page.get_by_label("Message")).to_have_value("41")
    may_answer.set()
    await expect(page.get_by_role("button", name="so so")).to_be_visible()
    await expect(page.get_by_label("Message")).to_have_value("")


@pytest.mark.gate
async def test_a_message_that_was_not_sent_stays_and_is_sent_again(open_page: OpenPage) -> None:
    page = await open_page("/play")
    await begin(page)
    keys: list[str] = []

    async def lose_the_answer(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            await route.fetch()  # the server takes it
            await route.abort("connectionreset")
        else:
            await route.continue_()

    await page.route("**/messages", lose_the_answer)
    await say(page, "Ana")
    await expect(page.get_by_text("This message was not sent:")).to_be_visible()
    await expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    await expect(page.get_by_text("Ana", exact=True)).to_be_visible()
    await say(page, "41")  # waits for the one before
    await page.get_by_role("button", name="Send again").click()
    await expect(page.get_by_role("button", name="so so")).to_be_visible()
    await expect(page.get_by_text("This message was not sent:")).to_have_count(0)
    assert (await page.get_by_role("log").inner_text()).count("How old are you, Ana?") == 1
    assert keys[0] == keys[1]
    assert len(set(keys)) == 2


async def test_a_message_that_was_not_sent_can_be_discarded(open_page: OpenPage) -> None:
    page = await open_page("/play")
    await begin(page)
    await page.route("**/messages", lambda route: route.abort("connectionreset"), times=1)
    await say(page, "Ana")
    await page.get_by_role("button", name="Discard").click()
    await say(page, "Ben")
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ben?")


async def test_message_after_a_turn_elsewhere_is_sent_again(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        session = await api.create_session("visit")
        page = await open_page("/sign-in")
        await page.route(
            "**/events?after*", lambda route: route.abort("connectionreset")
        )  # the page does not hear of it
        await page.goto(f"{server.url}/play/{session['sessionId']}")
        await expect(page.get_by_role("log")).to_contain_text("What may I call you?")
        await api.send_texts(session, "Ana")
        await say(page, "41")
        await expect(page.get_by_role("alert")).to_contain_text("TURN_CONFLICT")
        await expect(page.get_by_role("log")).to_contain_text("How old are you, Ana?")
        await page.get_by_role("button", name="Send again").click()
        await expect(page.get_by_role("button", name="so so")).to_be_visible()
        assert (await api.post(f"/api/sessions/{session['sessionId']}/end", json={"reason": "a test"})).is_success
    await page.get_by_role("button", name="so so").click()
    await expect(page.get_by_text("The conversation is over.").first).to_be_visible()
    await expect(page.get_by_role("button", name="Send again")).to_have_count(0)


async def test_reply_stays_in_view_and_has_the_keyboard(open_page: OpenPage, server: ServerProcess) -> None:
    asks = "".join(f"  - ask: Question {number}?\n" for number in range(1, 13))
    async with server.client() as api:
        await api.publish_script(f"cuebook: 1\nscript: questions\nactions:\n{asks}", strict=False)
    page = await open_page("/play", width=390)
    await begin(page, "questions")
    box = page.get_by_label("Message")
    await expect(box).to_be_focused()
    for number in range(1, 9):
        await expect(page.get_by_text(f"Question {number}?")).to_be_visible()
        await page.keyboard.type("Fine.")
        await page.keyboard.press("Enter")
    await expect(page.get_by_text("Question 9?")).to_be_visible()
    await expect(page.get_by_role("button", name="Back to here")).to_have_count(8)
    await expect(box).to_be_in_viewport(ratio=1)
    await page.reload()
    await expect(page.get_by_role("button", name="Back to here")).to_have_count(8)
    await expect(box).to_be_in_viewport(ratio=1)
    await expect(page.get_by_text("Question 9?")).to_be_in_viewport()


async def test_another_script_is_selected_after_one_that_is_not_there(open_page: OpenPage) -> None:
    page = await open_page("/play?script=nothing")
    await expect(page.get_by_role("alert")).to_contain_text("SCRIPT_NOT_FOUND")
    await begin(page)
    await expect(page.get_by_role("log")).to_contain_text("What may I call you?")


async def test_changes_of_a_turn_are_beside_it(open_page: OpenPage) -> None:
    page = await open_page("/play")
    await begin(page)
    await say(page, "Ana")
    await expect(page.get_by_text('nickname: null → "Ana"')).to_be_visible()
    await expect(page.get_by_text("hello › who › ask_age")).to_be_visible()


@pytest.mark.gate
async def test_back_to_a_turn_and_on(open_page: OpenPage) -> None:
    page = await open_page("/play")
    await begin(page)
    await say(page, "Ana")
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ana?")
    await page.get_by_role("button", name="Back to here (0)").click()
    await expect(page.get_by_role("log")).not_to_contain_text("Ana")
    await say(page, "Ben")
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ben?")


async def test_a_fork_leaves_the_first_session(open_page: OpenPage) -> None:
    page = await open_page("/play")
    await begin(page)
    await say(page, "Ana")
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ana?")
    first, fork = page.url, page.get_by_role("button", name="Fork from here (0)")
    await page.route("**/fork", lambda route: route.abort("connectionreset"), times=1)
    await fork.click()
    await expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    await expect(page.get_by_role("alert").get_by_role("button")).to_have_count(0)
    await fork.click()
    await expect(page.get_by_role("log")).not_to_contain_text("Ana")
    assert page.url != first
    await page.goto(first)
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ana?")


async def test_messages_before_the_last_200_are_read_on_request(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(f"/play/{await begin_long_session(server)}")
    said = page.get_by_role("log")
    earlier = page.get_by_role("button", name="Show earlier messages")
    await expect(earlier).to_be_enabled()
    await earlier.press("Enter")
    await expect(said.get_by_text("Line 1.", exact=True)).to_be_visible()
    await expect(said.get_by_text("Line 34.", exact=True)).to_be_in_viewport()  # what was read stays where it is
    await say(page, "Yes")
    await expect(page.get_by_text("The conversation is over.").first).to_be_visible()
    assert await said.get_by_text("Line ").count() == 230


@pytest.mark.gate
async def test_restart_begins_another_session(open_page: OpenPage) -> None:
    page = await open_page("/play")
    await begin(page)
    await say(page, "Ana")
    await expect(page.get_by_role("log")).to_contain_text("How old are you, Ana?")
    first = page.url
    await page.get_by_role("button", name="Restart").click()
    await expect(page.get_by_role("log")).not_to_contain_text("Ana")
    await expect(page).not_to_have_url(first)


async def test_text_typed_before_a_restart_goes_along(open_page: OpenPage) -> None:
    page = await open_page("/play")
    await begin(page)
    first, typed = page.url, page.get_by_role("textbox", name="Message")
    await typed.fill("My name is")
    await page.get_by_role("button", name="Restart").click()
    await expect(page).not_to_have_url(first)
    await expect(typed).to_have_value("My name is")
    await page.goto(first)
    await expect(typed).to_have_value("")


@pytest.mark.gate
async def test_with_the_keyboard_alone(open_page: OpenPage) -> None:
    page = await open_page("/play")
    begin = page.get_by_role("button", name="Begin")
    await expect(begin).to_be_enabled()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await expect(page.get_by_label("Script")).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(page.get_by_label("User")).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(begin).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("log")).to_be_visible()
    await page.get_by_label("Message").focus()
    await page.keyboard.type("Ana")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("log")).to_contain_text("Ana")


FORM = """
cuebook: 1
script: pets
actions:
  - form: pets
  - say: "{{ name }} has {{ kinds | length }}."
forms:
  - form: pets
    title: Your pets
    fields:
      - {field: name, label: Your name, required: true}
      - {field: kinds, label: Pets, type: multichoice, choices: [dog, cat], default: []}
"""


@pytest.mark.gate
async def test_a_form_shows_what_is_missing(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(FORM)
    page = await open_page("/play")
    await begin(page, "pets")
    await page.get_by_role("checkbox", name="dog").check()
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_label("Your name")).to_have_attribute("aria-invalid", "true")
    await page.get_by_label(re.compile("Your name")).fill("Ana")
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_role("log")).to_contain_text("Ana has 1.")


SCORES = """\
cuebook: 1
script: scores
actions: [{form: week}, {say: "{{ sum }} of 4."}]
forms:
  - form: week
    fields:
      - {field: a, label: Awake, type: number, choices: [{0: never}, {2: every day}]}
      - {field: b, label: Tired, type: number, choices: [{0: never}, {2: every day}], default: 2}
      - {field: sum, computed: a + b}
"""


async def test_choices_that_are_numbers_are_selected_by_their_words(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(SCORES, strict=False)
    page = await open_page("/play")
    await begin(page, "scores")
    await expect(page.get_by_label("Tired").locator("option:checked")).to_have_text("every day")
    await page.get_by_label("Awake").select_option(label="every day")
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_role("log")).to_contain_text("4 of 4.")


async def test_two_conversations_are_compared_from_a_turn_on(open_page: OpenPage) -> None:
    page = await open_page("/play")
    await begin(page)
    await say(page, "Ana")
    await say(page, "41")
    await page.get_by_role("button", name="so so").click()
    await expect(page.get_by_role("log")).to_contain_text("Noted as B, Ana.")
    await page.get_by_role("button", name="Compare from here (0)").click()
    first, second = page.get_by_role("region", name="First"), page.get_by_role("region", name="Second")
    await expect(first.get_by_role("log")).to_contain_text("Noted as B, Ana.")
    await expect(second.get_by_role("log")).not_to_contain_text("Ana")
    await second.get_by_label("Message").fill("Ben")
    await page.keyboard.press("Enter")
    await expect(second.get_by_role("log")).to_contain_text("How old are you, Ben?")
    await page.get_by_role("button", name="Give the same replies").click()
    await expect(second.get_by_role("log")).to_contain_text("Noted as B, Ben.")
    row = page.get_by_role("row").filter(has_text="nickname")
    await expect(row).to_contain_text('"Ana"')
    await expect(row).to_contain_text('"Ben"')
    await expect(page.get_by_role("row").filter(has_text="age")).to_have_count(0)
    await page.goto(re.sub("beside=.*", "beside=nothing", page.url))
    await expect(page.get_by_role("alert")).to_contain_text("SESSION_NOT_FOUND")


async def test_second_conversation_continues_with_another_version(open_page: OpenPage, server: ServerProcess) -> None:
    text = "cuebook: 1\nscript: words\nactions:\n  - {ask: Your name?, into: name, id: who}\n  - say: Hello.\n"
    async with server.client() as api:
        await api.publish_script(text, strict=False)
        await api.publish_script(text.replace("Hello.", "Good day."), strict=False)
    page = await open_page("/play")
    await begin(page, "words")
    await say(page, "Ana")
    await expect(page.get_by_role("log")).to_contain_text("Good day.")
    await page.get_by_role("button", name="Compare from here (0)").click()
    second = page.get_by_role("region", name="Second")
    await page.get_by_label("Version").select_option("1")
    await page.get_by_role("button", name="Give the same replies").click()
    await expect(second.get_by_role("log")).to_contain_text("Hello.")


async def test_published_version_is_offered_while_a_later_one_is_tried(
    open_page: OpenPage, server: ServerProcess
) -> None:
    text = "cuebook: 1\nscript: words\nactions:\n  - {ask: Your name?, into: name, id: who}\n  - say: Hello.\n"
    async with server.client() as api:
        await api.publish_script(text, strict=False)
        await api.publish_script(text.replace("Hello.", "Good day."), strict=False, publish=False)
    page = await open_page("/play")
    await begin(page, "words")
    await say(page, "Ana")
    await expect(page.get_by_role("log")).to_contain_text("Hello.")
    await page.goto(f"{server.url}/play?script=words&version=2")
    await expect(page).to_have_url(re.compile(r"/play/[^?]+$"))
    await page.reload()
    tried = page.url
    await page.get_by_role("button", name="Restart").click()
    await expect(page).not_to_have_url(tried)
    await say(page, "Ana")
    await expect(page.get_by_role("log")).to_contain_text("Good day.")


async def test_moment_that_a_session_waits_for_comes_at_once(open_page: OpenPage, server: ServerProcess) -> None:
    text = "cuebook: 1\nscript: waits\nactions:\n  - say: Until then.\n  - wait: 3 days\n  - say: There you are.\n"
    async with server.client() as api:
        await api.publish_script(text, strict=False)
    page = await open_page("/play")
    await page.get_by_label("Script").select_option("waits")
    await page.get_by_role("button", name="Begin").click()
    await page.get_by_role("button", name="Now (3 days)").click()
    await expect(page.get_by_role("log")).to_contain_text("There you are.")


@pytest.mark.gate
async def test_what_a_session_does_by_itself_appears(open_page: OpenPage, server: ServerProcess) -> None:
    text = "cuebook: 1\nscript: waits\nactions:\n  - wait: 2 seconds\n  - ask: There you are. Who?\n    into: who\n"
    async with server.client() as api:
        await api.publish_script(text, strict=False)
    page = await open_page("/play")
    await page.get_by_label("Script").select_option("waits")
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_text("Continues at")).to_be_visible()
    await page.get_by_label("Message").fill("typed")
    await expect(page.get_by_role("log")).to_contain_text("There you are.")
    await expect(page.get_by_label("Message")).to_have_value("typed")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("log").get_by_text("typed")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_another_model_answers_from_now_on(
    open_page: OpenPage, server: ServerProcess, restart: Restart, endpoint: Endpoint
) -> None:
    page = await open_page("/play")
    tables = "".join(f'[models.{name}]\nmodel = "{name}-1"\nurl = "{endpoint.url}"\n' for name in ("fast", "clever"))
    cassette = server.folder / "calm.yaml"
    cassette.write_text("replies:\n  answer: [That is good.]\n")
    tables += f'[models.calm]\ncassette = "{cassette}"\n'
    (server.folder / "cuebook.toml").write_text(f'model = "fast"\n{tables}')
    endpoint.always(content="Well.")
    several = await restart()
    async with several.client() as api:
        text = (
            "cuebook: 1\nscript: talk\nactions:\n  - {ask: How are you?, into: mood, id: mood}\n"
            "  - {ai_say: Answer., id: answer}\n"
        )
        await api.publish_script(text, strict=False)
    await page.goto(f"{several.url}/play")
    await begin(page, "talk")
    await page.get_by_label("Model").select_option("clever")
    await expect(page.get_by_label("Model")).to_be_enabled()
    await say(page, "Fine")
    await expect(page.get_by_role("log")).to_contain_text("Well.")
    assert [asked.model for asked in endpoint.requests] == ["clever-1"]
    await page.get_by_role("button", name="Restart").click()
    await page.get_by_label("Model").select_option("calm")
    await expect(page.get_by_label("Model")).to_be_enabled()
    await say(page, "Fine")
    await expect(page.get_by_role("log")).to_contain_text("That is good.")
    assert len(endpoint.requests) == 1


FAILING = """\
cuebook: 1
script: talk
actions:
  - {ai_say: Greet., id: greet}
  - ask: Well?
  - {ai_say: Answer., id: answer}
"""


async def test_turn_that_failed_is_sent_again(open_page: OpenPage, restart: Restart, endpoint: Endpoint) -> None:
    page = await open_page("/play")
    again = await restart(CUEBOOK_MODEL="openai:tiny", CUEBOOK_MODEL_URL=endpoint.url, CUEBOOK_MODEL_ATTEMPTS="1")
    endpoint.will(status=503, times=3)
    async with again.client() as api:
        await api.publish_script(FAILING, strict=False)
        await page.goto(f"{again.url}/play")
        await page.get_by_label("Script").select_option("talk")
        for _ in range(2):
            async with page.expect_response("**/api/sessions"):
                await page.get_by_role("button", name="Begin").click()
            await expect(page.get_by_role("alert")).to_contain_text("LLM_SERVICE_ERROR")
        (session,) = (await api.read("/api/sessions", scriptId="talk"))["data"]
    await page.goto(f"{again.url}/play/{session['sessionId']}")
    alert, said = page.get_by_role("alert"), page.get_by_role("log")
    await expect(alert).to_contain_text("LLM_SERVICE_ERROR")
    async with page.expect_response("**/messages"):
        await alert.get_by_role("button", name="Try again").click()
    await alert.get_by_role("button", name="Try again").click()
    await expect(said).to_contain_text("Well?")
    endpoint.will(status=503)
    await say(page, "Fine")
    await expect(alert).to_contain_text("LLM_SERVICE_ERROR")
    await expect(alert.get_by_role("button")).to_have_count(0)
    await page.get_by_role("button", name="Send again").click()
    await expect(page.get_by_text("The conversation is over.").first).to_be_visible()
    assert await said.get_by_text("Fine").count() == 1


PICTURE = """\
cuebook: 1
script: picture
actions:
  - show: {image: "https://example.org/lake", url: "https://example.org/lake", caption: A lake}
  - ask: Well?
"""


async def test_picture_that_links_to_itself_is_one_link(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        await api.publish_script(PICTURE, strict=False)
    page = await open_page("/play?script=picture")
    await expect(page.get_by_role("link", name="https://example.org/lake")).to_have_count(1)
    await expect(page.get_by_role("log")).to_contain_text("Well?")


async def test_state_stays_beside_a_long_conversation(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(f"/play/{await begin_long_session(server)}")
    await expect(page.get_by_text("Line 230.")).to_be_in_viewport()
    await expect(page.get_by_role("heading", name="This turn")).to_be_in_viewport()


async def test_somebody_who_has_gone_elsewhere_stays_there(open_page: OpenPage) -> None:
    page = await open_page("/play")
    may_answer = asyncio.Event()

    async def answer_later(route: Route) -> None:
        await may_answer.wait()
        await route.continue_()

    await page.route("**/api/sessions", answer_later, times=1)
    await page.get_by_label("Script").select_option("visit")
    await page.get_by_role("button", name="Begin").click()
    await page.get_by_role("link", name="Operate").click()
    await expect(page.get_by_role("heading", name="Operate")).to_be_visible()
    async with page.expect_response(lambda answer: "/timers" in answer.url):  # the last that is read of a new session
        may_answer.set()
    await expect(page.get_by_role("heading", name="Operate")).to_be_visible()
    assert page.url.endswith("/operate")
