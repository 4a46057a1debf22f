"""Sessions: the list with its filters, and one session with its timeline."""

import asyncio
import re
from datetime import date, timedelta

from playwright.async_api import Route, expect

from tests.console.conftest import OpenPage, begin_long_session
from tests.support.server_process import ServerProcess

FRAMES = """async () => {
  const list = document.querySelector('[role=listbox]')
  const times = []
  for (let at = list.scrollHeight; at > 0 && times.length < 120; at -= list.scrollHeight / 120) {
    const start = performance.now()
    list.scrollTop = at
    await new Promise(requestAnimationFrame)
    times.push(performance.now() - start)
  }
  return {count: times.length, slowest: Math.max(...times)}
}"""
"""Scrolls through the timeline, and returns how long its frames take."""


async def two_turns(server: ServerProcess, user: str = "ana") -> str:
    async with server.client() as api:
        session = await api.create_session("visit", user=user, metadata={"team": "north"})
        await api.send_texts(session, user.title(), "41")
        return str(session["sessionId"])


async def test_an_empty_list_leads_to_play(open_page: OpenPage) -> None:
    page = await open_page("/")
    await expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()
    await page.get_by_role("main").get_by_role("link", name="Play").last.click()
    await expect(page.get_by_role("button", name="Begin")).to_be_visible()


async def test_filters_are_in_the_address(open_page: OpenPage, server: ServerProcess) -> None:
    await two_turns(server, "ana")
    await two_turns(server, "ben")
    page = await open_page("/sessions")
    rows = page.get_by_role("main").get_by_role("listitem")
    await expect(rows).to_have_count(2)
    await page.get_by_label("User").fill("ben")
    await page.get_by_role("button", name="Filter").click()
    await expect(rows).to_have_count(1)
    assert "userId=ben" in page.url
    await page.get_by_label("Status").select_option("completed")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_text("No session matches the filters.")).to_be_visible()
    await page.go_back()
    await expect(rows).to_have_count(1)
    await page.get_by_role("link", name="Clear filters").click()
    await expect(rows).to_have_count(2)


async def test_sessions_and_messages_are_filtered_by_days(open_page: OpenPage, server: ServerProcess) -> None:
    await two_turns(server)
    page = await open_page("/sessions")
    rows = page.get_by_role("main").get_by_role("listitem")
    await expect(rows).to_have_count(1)
    today = date.fromisoformat(await page.evaluate("new Date().toLocaleDateString('sv')"))
    for first, last, count in ((0, 0, 1), (1, 1, 0), (-1, -1, 0), (-1, 1, 1)):
        await page.get_by_label("From").fill(str(today + timedelta(first)))
        await page.get_by_label("To", exact=True).fill(str(today + timedelta(last)))
        await page.get_by_role("button", name="Filter").click()
        await expect(page).to_have_url(re.compile(f"from={today + timedelta(first)}&to={today + timedelta(last)}"))
        await expect(rows).to_have_count(count)
    for day, count in ((1, 0), (0, 1)):
        await page.goto(page.url.partition("?")[0] + f"?q=old&from={today + timedelta(day)}")
        await expect(page.get_by_text("A search in messages has the filters script, user and days.")).to_be_visible()
        await expect(rows).to_have_count(count)
    await page.goto(page.url.partition("?")[0] + "?from=yesterday")
    await expect(page.get_by_role("alert")).to_contain_text("activeAfter")


async def test_back_returns_to_the_same_place_of_the_list(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        for number in range(70):
            await api.create_session("visit", user=f"user{number}")
    page = await open_page("/sessions")
    rows = page.get_by_role("main").get_by_role("listitem")
    await page.get_by_role("button", name="Show more").click()
    await expect(rows).to_have_count(70)
    await page.get_by_text("user8", exact=True).click()
    await expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    await page.go_back()
    await expect(rows).to_have_count(70)
    await expect(page.get_by_text("user8", exact=True)).to_be_in_viewport()


async def test_long_names_end_at_the_edge_of_a_narrow_list(open_page: OpenPage, server: ServerProcess) -> None:
    name = "a_long_name_" * 15
    async with server.client() as api:
        await api.publish_script(f"cuebook: 1\nscript: {name}\nactions: [{{ask: Well?}}]\n", strict=False)
        await api.create_session(name, user="someone_" * 20)
    page = await open_page("/sessions", width=390)
    entry = page.get_by_role("main").get_by_role("listitem")
    await expect(entry).to_contain_text(name)
    assert await entry.evaluate("entry => entry.firstElementChild.scrollWidth <= entry.clientWidth")


async def test_messages_are_found_by_their_words(open_page: OpenPage, server: ServerProcess) -> None:
    session = await two_turns(server)
    page = await open_page("/sessions?q=old")
    await expect(page.get_by_role("main").locator("mark")).to_have_text("old")
    await expect(page.get_by_label("Status")).to_be_disabled()  # a search has no filter by status
    await expect(page.get_by_label("User")).to_be_enabled()
    await page.get_by_role("main").get_by_role("listitem").get_by_role("link").click()
    await expect(page).to_have_url(re.compile(f"{session}.turn=1"))
    await expect(page.get_by_text("Turn 1 of 2")).to_be_visible()


async def test_found_messages_are_counted(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        for _ in range(51):
            await api.create_session("visit", user="ana")
    page = await open_page("/sessions?q=welcome")
    await expect(page.get_by_text("50 shown")).to_be_visible()
    await page.get_by_role("button", name="Show more").click()
    await expect(page.get_by_role("main").get_by_role("listitem")).to_have_count(51)


async def test_the_state_of_any_turn(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(f"/sessions/{await two_turns(server)}")
    await expect(page.get_by_role("heading", name="visit")).to_be_visible()
    state = page.get_by_role("region", name="State")
    await expect(state).to_contain_text("hello › who › ask_mood")
    await expect(state).to_contain_text("age changed 41")
    await page.get_by_role("slider").focus()
    await page.keyboard.press("Home")
    await expect(state).to_contain_text("hello › who › ask_name")
    await page.keyboard.press("ArrowRight")
    await expect(state).to_contain_text("hello › who › ask_age")


async def test_the_timeline_is_in_the_language_of_the_page(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(f"/sessions/{await two_turns(server)}")
    await page.get_by_label("Language").select_option("zh")
    await page.get_by_label("显示").select_option("flow")
    await expect(page.get_by_role("listbox")).to_contain_text("进入动作")
    await expect(page.get_by_role("listbox")).not_to_contain_text("action entered")


async def test_rows_are_chosen_with_arrow_keys(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(f"/sessions/{await two_turns(server)}")
    timeline = page.get_by_role("listbox", name="Timeline")
    await page.get_by_label("Show").select_option("messages")
    await expect(timeline).to_contain_text("How are you?")
    await timeline.focus()
    await page.keyboard.press("Home")
    await page.keyboard.press("ArrowDown")
    await expect(timeline.get_by_role("option", selected=True)).to_contain_text("Welcome.")
    await page.keyboard.press("End")
    await expect(timeline.get_by_role("option", selected=True)).to_contain_text("How are you?")


async def test_what_happens_meanwhile_appears(open_page: OpenPage, server: ServerProcess) -> None:
    session = await two_turns(server)
    page = await open_page(f"/sessions/{session}")
    await expect(page.get_by_text("● Live")).to_be_visible()
    async with server.client() as api:
        await api.send_message({"sessionId": session}, {"choice": "A"})
    await expect(page.get_by_text("Turn 3 of 3")).to_be_visible()
    await expect(page.get_by_role("option").filter(has_text="Noted as A")).to_be_visible()


async def test_what_happens_after_a_refused_stream_appears(open_page: OpenPage, server: ServerProcess) -> None:
    session = await two_turns(server)
    page = await open_page("/")
    refused = []

    async def refuse_first(route: Route) -> None:
        if refused or route.request.headers.get("accept") != "text/event-stream":
            await route.continue_()
        else:
            refused.append(route.request.url)
            await route.fulfill(status=503)

    await page.route("**/events?after=*", refuse_first)
    async with page.expect_response(lambda response: response.status == 503):
        await page.goto(f"{server.url}/sessions/{session}")
    await expect(page.get_by_text("Turn 2 of 2")).to_be_visible()
    async with server.client() as api:
        await api.send_message({"sessionId": session}, {"choice": "A"})
    await expect(page.get_by_role("option").filter(has_text="Noted as A")).to_be_visible(timeout=15_000)
    assert len(refused) == 1


async def test_a_page_that_is_left_or_hidden_holds_no_connection(open_page: OpenPage, server: ServerProcess) -> None:
    """A browser has six connections to a server for all its pages: with more streams, no page would load."""
    sessions = [await two_turns(server) for _ in range(8)]
    page = await open_page("/")
    for session in sessions:
        await page.locator(f"a[href='/sessions/{session}']").click()
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_role("button", name="Resume").click()
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()
        await page.get_by_role("link", name="All sessions").click()
    await page.locator(f"a[href='/sessions/{sessions[0]}']").click()
    await expect(page.get_by_text("● Live")).to_be_visible()
    show = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true}); \
        document.dispatchEvent(new Event('visibilitychange')) }"
    async with page.expect_event("requestfailed", lambda request: "events?after" in request.url):
        await page.evaluate(show, True)
    async with server.client() as api:
        await api.send_message({"sessionId": sessions[0]}, {"choice": "A"})
    await page.evaluate(show, False)
    await expect(page.get_by_role("option").filter(has_text="Noted as A")).to_be_visible()


async def test_a_variable_is_set(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(f"/sessions/{await two_turns(server)}")
    await page.get_by_role("button", name="Set a variable").click()
    names = page.get_by_role("dialog").locator("datalist option")
    assert "age" in await names.evaluate_all("options => options.map((each) => each.value)")
    await page.get_by_role("dialog").get_by_label("Name").fill("age")
    await page.get_by_role("dialog").get_by_label("Value").fill("42")
    await page.get_by_role("button", name="Set", exact=True).click()
    await expect(page.get_by_role("region", name="State")).to_contain_text("age changed 42")


async def test_rewind_fork_and_end(open_page: OpenPage, server: ServerProcess) -> None:
    session = await two_turns(server)
    page = await open_page(f"/sessions/{session}?turn=0")
    await page.get_by_role("button", name="Fork here").click()
    await expect(page).not_to_have_url(re.compile(session))
    await page.goto(f"{server.url}/sessions/{session}?turn=1")
    await page.get_by_role("button", name="Rewind to here").click()
    await page.get_by_role("dialog").get_by_role("button", name="Rewind to here").click()
    await expect(page.get_by_role("region", name="State")).to_contain_text("hello › who › ask_age")
    await page.get_by_role("button", name="End", exact=True).click()
    await page.get_by_role("dialog").get_by_label("Reason").fill("a test")
    await page.get_by_role("dialog").get_by_role("button", name="End").click()
    await expect(page.get_by_text("Completed")).to_be_visible()


async def test_paused_session_is_resumed_here_and_in_play(open_page: OpenPage, server: ServerProcess) -> None:
    session = await two_turns(server)
    page = await open_page(f"/sessions/{session}")
    pause, resume = (page.get_by_role("button", name=name) for name in ("Pause", "Resume"))
    await pause.press("Enter")
    await expect(resume).to_be_focused()
    await expect(resume).to_be_enabled()
    await page.keyboard.press("Enter")
    await pause.click()
    await expect(resume).to_be_enabled()
    await page.goto(f"{server.url}/inbox/{session}")
    await expect(page.get_by_role("status")).to_contain_text("The conversation is paused.")
    await page.goto(f"{server.url}/play/{session}")
    await expect(page.get_by_text("The conversation is paused.")).to_be_visible()
    await resume.click()
    await page.get_by_label("Message").fill("so so")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("log")).to_contain_text("Noted as B, Ana.")


async def test_second_click_makes_no_second_fork(open_page: OpenPage, server: ServerProcess) -> None:
    session = await two_turns(server)
    page = await open_page(f"/sessions/{session}")
    may_answer = asyncio.Event()

    async def answer_later(route: Route) -> None:
        await may_answer.wait()
        await route.continue_()

    await page.route("**/fork", answer_later)
    fork = page.get_by_role("button", name="Fork here")
    await fork.click()
    await expect(fork).to_be_disabled()
    may_answer.set()
    await expect(page).not_to_have_url(re.compile(session))


async def test_selected_turn_is_in_the_address(open_page: OpenPage, server: ServerProcess) -> None:
    page = await open_page(f"/sessions/{await two_turns(server)}")
    state = page.get_by_role("region", name="State")
    await expect(state).to_contain_text("Turn 2")
    await page.get_by_role("slider").fill("1")
    await expect(page).to_have_url(re.compile(r"\?turn=1$"))
    await page.get_by_label("Show").select_option("variables")
    await page.reload()
    await expect(state).to_contain_text("Turn 1")
    await page.get_by_role("link", name="All sessions").click()
    await page.go_back()
    await expect(page.get_by_label("Show")).to_have_value("variables")
    await expect(page).to_have_url(re.compile("show=variables"))
    await page.get_by_role("button", name="Rewind to here").click()
    await page.get_by_role("dialog").get_by_role("button", name="Rewind to here").click()
    await expect(page).not_to_have_url(re.compile("turn"))


async def test_an_unknown_session_says_so(open_page: OpenPage) -> None:
    page = await open_page("/sessions/00000000-0000-0000-0000-000000000000")
    await expect(page.get_by_role("alert")).to_contain_text("SESSION_NOT_FOUND")


async def test_twenty_thousand_events_scroll_and_are_filtered(open_page: OpenPage, server: ServerProcess) -> None:
    async with server.client() as api:
        session = await api.create_session("visit")
        path = f"/api/sessions/{session['sessionId']}"
        for number in range(200):
            messages = [{"role": "user", "content": f"message {number * 100 + each}"} for each in range(100)]
            answer = await api.post(f"{path}/messages/append", json={"messages": messages})
            assert answer.status_code == 200, answer.text
    page = await open_page(f"/sessions/{session['sessionId']}")
    timeline = page.get_by_role("region", name="Timeline")
    await expect(timeline.get_by_role("status")).to_contain_text("Arrow keys", timeout=60_000)  # all of it is loaded
    await timeline.get_by_role("listbox").focus()
    await page.keyboard.press("End")
    await expect(timeline).to_contain_text("message 19999")
    assert await timeline.get_by_role("option").count() < 100
    await page.get_by_role("combobox", name="Show").select_option("variables")
    await expect(timeline).not_to_contain_text("message 19999")
    await page.get_by_role("combobox", name="Show").select_option("messages")
    await timeline.get_by_role("listbox").focus()
    await page.keyboard.press("End")
    await expect(timeline).to_contain_text("message 19999")
    frames = await page.evaluate(FRAMES)
    print(f"{frames['count']} frames while 20,000 events scroll, the slowest {frames['slowest']:.0f} ms")
    assert frames["count"] > 10


async def test_session_is_saved_as_a_case_of_its_script(open_page: OpenPage, server: ServerProcess) -> None:
    session = await two_turns(server)
    page = await open_page(f"/sessions/{session}")
    await page.get_by_role("button", name="Save as a case").click()
    await expect(page.get_by_role("tabpanel").get_by_role("status")).to_have_text("1 of 1 case passes")
    await expect(page.get_by_label("Text of the script")).to_contain_text("What may I call you?")


async def test_the_timeline_names_what_happened(open_page: OpenPage, server: ServerProcess) -> None:
    script = """
        cuebook: 1
        script: sleeper
        interrupts: [{interrupt: privacy, on: [private], do: [{say: It stays between us.}]}]
        actions:
          - {ask: Who are you?, into: name, id: ask_name, milestone: introduced}
          - {emit: {event: greeted}, id: tell}
          - {wait: 3 days, id: rest}
    """
    async with server.client() as api:
        await api.publish_script(script)
        session = await api.create_session("sleeper")
        await api.send_texts(session, "Is this private?", "Ana")
    page = await open_page(f"/sessions/{session['sessionId']}")
    timeline = page.get_by_role("listbox")
    for kind, name in (
        ("interrupted", "privacy"),
        ("milestone", "introduced"),
        ("emitted", "greeted"),
        ("wait", "time ·"),
    ):
        await expect(timeline.get_by_role("option").filter(has_text=kind).filter(has_text=name).first).to_be_visible()


async def test_return_to_the_list_asks_for_nothing_in_vain(open_page: OpenPage, server: ServerProcess) -> None:
    session = await two_turns(server)
    page = await open_page("/sessions")
    failed: list[str] = []
    page.on("response", lambda answer: failed.append(answer.url) if answer.status >= 400 else None)
    await page.get_by_role("main").get_by_role("link", name="ana").click()
    await expect(page.get_by_text(session)).to_be_visible()
    await page.go_back()
    await expect(page.get_by_role("button", name="Filter")).to_be_visible()
    await page.go_forward()
    await expect(page.get_by_text(session)).to_be_visible()
    await page.evaluate("history.pushState(null, '', '/memory/kim')")
    async with page.expect_response("**/api/memory/status?userId=kim"):
        await page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
    assert failed == []


async def test_a_filter_that_is_no_version_is_refused(open_page: OpenPage, server: ServerProcess) -> None:
    await two_turns(server)
    page = await open_page("/sessions?scriptVersion=latest")
    await expect(page.get_by_role("alert")).to_contain_text("scriptVersion")


async def test_events_of_a_selected_turn_are_in_view(open_page: OpenPage, server: ServerProcess) -> None:
    session = await begin_long_session(server)
    async with server.client() as api:
        await api.send_texts({"sessionId": session}, "Very well.")
    page = await open_page(f"/sessions/{session}?turn=0")
    await expect(page.get_by_role("status").filter(has_text="Arrow keys")).to_be_visible()  # all of it is loaded
    await page.get_by_role("slider").press("ArrowRight")
    await expect(page.get_by_role("listbox").get_by_text("Very well.").first).to_be_in_viewport()
