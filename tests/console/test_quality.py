"""What holds for every page: accessible in both themes, narrow screens, hostile texts, a small first load."""

from typing import Any

import pytest
from playwright.async_api import Page, expect

from api.settings import KEY_FILE, PAGES
from tests.console.conftest import NewKey, OpenPage, sign_in
from tests.support.paths import ROOT
from tests.support.server_process import ServerProcess

AXE = ROOT / "api/console/web/node_modules/axe-core/axe.min.js"
FIRST_LOAD_BYTES_MAX = 120_000
HOSTILE = [
    "<script>alert('script')</script>",
    "<img src=x onerror=\"alert('image')\">",
    "javascript:alert('address')",
    "{{ constructor.constructor('alert(1)')() }}",
    "</textarea><svg onload=alert(1)>",
    "\u202egnirts desrever",
]


async def violations(page: Page) -> list[str]:
    """Return what axe finds; its text is evaluated by the debugger, which the policy of the page does not concern."""
    await page.evaluate(AXE.read_text("utf-8"))
    # what Swagger UI draws is not ours
    others = "{exclude: ['.swagger-ui']}"
    found: dict[str, Any] = await page.evaluate(f"axe.run({others}, {{resultTypes: ['violations']}})")
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]


async def a_session(server: ServerProcess) -> str:
    async with server.client() as api:
        session = await api.create_session("visit")
        await api.send_texts(session, "Ana", "41")
        return str(session["sessionId"])


async def a_review(server: ServerProcess, session: str, name: str = "Warmth") -> str:
    questions = [
        {"questionId": "warm", "text": f"How warm? {name}", "kind": "scale", "min": 1, "max": 5},
        {"questionId": "safe", "text": name, "kind": "choice", "choices": [name, "other"]},
        {"questionId": "remarks", "text": "What else?", "kind": "text"},
    ]
    body = {"name": name, "instructions": name, "questions": questions, "sessionIds": [session]}
    async with server.client() as api:
        return str((await api.post("/api/reviews", json=body)).json()["reviewId"])


async def a_dashboard(server: ServerProcess, name: str = "Weekly") -> str:
    tiles = [{"report": "activity"}, {"report": "funnel", "parameters": {"script": "visit"}, "title": name}]
    async with server.client() as api:
        made = await api.post("/api/analytics/dashboards", json={"name": name, "tiles": tiles})
        return str(made.json()["dashboardId"])


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_page_is_accessible(open_page: OpenPage, server: ServerProcess, theme: str) -> None:
    session = await a_session(server)
    review = await a_review(server, session)
    board = await a_dashboard(server)
    for path, ready in (
        ("/reviews", "Warmth"),
        (f"/reviews/{review}", "What may I call you?"),
        ("/dashboards", "Weekly"),
        (f"/dashboards/{board}", "Activity over time"),
        ("/inbox", "Nobody waits for a person."),
        (f"/inbox/{session}", "How are you?"),
        ("/sessions", "First visit"),
        (f"/sessions/{session}", "hello › who › ask_mood"),
        ("/play", "Begin"),
        (f"/play/{session}", "How are you?"),
        ("/analytics/funnel?script=visit", "reached"),
        ("/sql", "messages"),
        ("/memory/ana", "What may I call you?"),
        ("/operate/health", "Ready"),
        ("/operate/database", "Retention"),
        ("/operate/links", "There are no links."),
        ("/reference", "Sessions"),
        ("/write", "First visit"),
        ("/write/visit", "There are no problems."),
    ):
        page = await open_page(path, theme=theme)
        await expect(page.locator("#content")).to_contain_text(ready)
        assert (path, await violations(page)) == (path, [])


async def test_narrow_screens_do_not_scroll_sideways(open_page: OpenPage, server: ServerProcess) -> None:
    session = await a_session(server)
    async with server.client() as api:
        assert (await api.post("/api/links", json={"scriptId": "visit"})).is_success
    review = await a_review(server, session)
    board = await a_dashboard(server)
    for path in (
        "/dashboards",
        f"/dashboards/{board}",
        "/inbox",
        f"/inbox/{session}",
        "/reviews",
        f"/reviews/{review}",
        "/sessions",
        f"/sessions/{session}",
        "/play",
        f"/play/{session}",
        "/analytics/funnel",
        "/sql",
        "/write",
        "/write/visit",
        "/operate/keys",
        "/operate/links",
        "/reference",
        "/memory/ana",
    ):
        page = await open_page(path, width=360)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_role("status").filter(has_text="Loading")).to_have_count(0)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360, path


@pytest.mark.gate
async def test_hostile_texts_are_texts(open_page: OpenPage, server: ServerProcess) -> None:
    """Of users, scripts and applications: nothing of them runs, and their addresses are no links."""
    text = " ".join(HOSTILE)
    async with server.client() as api:
        await api.publish_script(
            "cuebook: 1\nscript: hostile\ntitle: '<b onclick=alert(1)>bold</b>'\nactions:\n"
            "  - show: {image: 'javascript:alert(1)', caption: '<img src=x onerror=alert(2)>'}\n"
            "  - ask: What?\n    into: answer\n  - choose: Which?\n    into: pick\n"
            "    choices: ['<svg onload=alert(3)>', other]\n"
        )
        session = await api.create_session("hostile", user=HOSTILE[0], metadata={"title": HOSTILE[1]})
        await api.send_texts(session, text)
    review = await a_review(server, session["sessionId"], next(each for each in HOSTILE if "onerror" in each))
    for path in (
        "/reviews",
        f"/reviews/{review}",
        "/sessions",
        f"/sessions/{session['sessionId']}",
        f"/play/{session['sessionId']}",
        f"/inbox/{session['sessionId']}",
    ):
        page = await open_page(path)
        await expect(page.get_by_role("main")).to_contain_text("onerror")
        assert await page.evaluate("document.querySelectorAll('main img, main svg, main script, main b').length") == 0
        assert await page.locator("main a[href^=javascript]").count() == 0


@pytest.mark.gate
async def test_the_first_load_is_small(open_page: OpenPage) -> None:
    sizes: dict[str, int] = {}
    page = await open_page("/sign-in")
    page.on("response", lambda answer: sizes.update({answer.url: int(answer.headers.get("content-length", 0))}))
    await page.goto(page.url.replace("/sign-in", "/"))
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    loaded = sum(size for url, size in sizes.items() if "/api/" not in url)
    paint = await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    print(f"first load: {loaded / 1_000:.1f} kB gzip in {len(sizes)} responses, first paint after {paint:.0f} ms")
    assert 10_000 < loaded <= FIRST_LOAD_BYTES_MAX


async def test_key_of_a_user_has_the_screens_of_this_user(open_page: OpenPage, new_key: NewKey) -> None:
    key = await new_key("admin", user="kim")
    page = await open_page("/inbox")
    await sign_in(page, key)
    await expect(page.get_by_role("main")).to_contain_text("only for the user kim")
    screens = page.get_by_role("navigation").get_by_role("link")
    await expect(screens).to_have_text(["Sessions", "Play", "Memory", "Operate", "API"])
    await screens.filter(has_text="Play").click()
    await page.get_by_label("Name of the script").fill("visit")
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_role("log")).to_contain_text("What may I call you?")
    await screens.filter(has_text="Memory").click()
    await expect(page.get_by_role("main")).to_contain_text("Messages and notes: 3")


@pytest.mark.gate
async def test_a_key_is_entered_and_roles_decide(open_page: OpenPage, new_key: NewKey) -> None:
    reader = await new_key("reader")
    page = await open_page("/play")
    await sign_in(page, "cbk_wrong")
    await expect(page.get_by_role("alert")).to_contain_text("UNAUTHENTICATED")
    assert await violations(page) == []
    await sign_in(page, reader)
    await expect(page.get_by_text("Your key has no role for this screen.")).to_be_visible()
    await expect(page.get_by_role("link", name="Play")).to_have_count(0)
    await page.get_by_role("link", name="Sessions").click()
    await expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()
    await expect(page.get_by_role("link", name="Play")).to_have_count(0)
    assert reader not in str(await page.evaluate("[document.cookie, JSON.stringify(localStorage)]"))
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_label("API key")).to_be_visible()


async def test_a_key_that_is_revoked_leads_back_to_the_same_screen(
    open_page: OpenPage, server: ServerProcess, new_key: NewKey
) -> None:
    revoked, valid = await new_key("app"), await new_key("app")
    page = await open_page("/play")
    await sign_in(page, revoked)
    await expect(page.get_by_role("button", name="Begin")).to_be_visible()
    async with server.client() as api:
        operator = {"Authorization": f"Bearer {(server.folder / 'data' / KEY_FILE).read_text()}"}
        keys = (await api.get("/api/keys", headers=operator)).json()["data"]
        first = min(keys, key=lambda each: each["createdAt"])
        assert (await api.delete(f"/api/keys/{first['keyId']}", headers=operator)).is_success
    await page.get_by_role("button", name="Begin").click()
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("sign in with a key that is valid")
    await expect(alert).not_to_contain_text("Bearer")
    await alert.get_by_role("button", name="Sign in").click()
    await sign_in(page, valid)
    await expect(page.get_by_role("heading", level=1, name="Play")).to_be_visible()


async def test_what_is_typed_stays_while_a_key_is_replaced(
    open_page: OpenPage, server: ServerProcess, new_key: NewKey
) -> None:
    revoked, lesser, valid = await new_key("author"), await new_key("reader"), await new_key("admin")
    page = await open_page("/write/visit")
    await sign_in(page, revoked)
    await expect(page.get_by_text("There are no problems.")).to_be_visible()
    async with server.client() as api:
        operator = {"Authorization": f"Bearer {(server.folder / 'data' / KEY_FILE).read_text()}"}
        keys = (await api.get("/api/keys", headers=operator)).json()["data"]
        first = min(keys, key=lambda each: each["createdAt"])
        assert (await api.delete(f"/api/keys/{first['keyId']}", headers=operator)).is_success
    text = page.get_by_role("textbox", name="Text of the script")
    await text.press("Control+End")
    await page.keyboard.type("# typed without a key")
    await page.get_by_role("alert").get_by_role("button", name="Sign in").click()
    await sign_in(page, lesser)
    missing = page.get_by_role("alert").filter(has_text="a key with one of these roles: author")
    await expect(text).to_contain_text("# typed without a key")
    await missing.get_by_role("button", name="Sign in").click()
    await sign_in(page, valid)
    await expect(text).to_contain_text("# typed without a key")
    await expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)
    # all screens, the languages and the name of the key are in one line
    assert await page.get_by_role("banner").evaluate("header => header.offsetHeight") < 60


async def test_another_page_is_read_from_its_content(open_page: OpenPage, server: ServerProcess) -> None:
    await a_session(server)
    page = await open_page("/play")
    await expect(page.get_by_role("button", name="Begin")).to_be_visible()
    await page.get_by_role("link", name="Sessions").press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()
    await page.get_by_role("listitem").get_by_role("link").press("Enter")
    await expect(page.get_by_role("listbox", name="Timeline")).to_be_visible()
    await expect(page.get_by_role("main")).to_be_focused()


async def test_an_address_that_does_not_exist_leads_back(open_page: OpenPage) -> None:
    page = await open_page("/sessionz/0b8a4a4e")
    await expect(page.get_by_role("heading", level=1, name="There is no such page.")).to_be_visible()
    await expect(page).to_have_title("There is no such page. · Cuebook")
    await page.get_by_role("main").get_by_role("link", name="Sessions").click()
    await expect(page.get_by_role("heading", level=1, name="Sessions")).to_be_visible()
    page = await open_page("/sign-in")
    await expect(page.get_by_role("heading", level=1, name="Sessions")).to_be_visible()


async def test_an_address_with_a_percent_sign_is_no_blank_page(open_page: OpenPage) -> None:
    page = await open_page("/sessions/100%")
    await expect(page.get_by_role("alert")).to_contain_text("SESSION_NOT_FOUND")
    page = await open_page("/chat/100%")
    await expect(page.get_by_role("alert")).to_contain_text("This link does not exist")


async def test_language_and_theme_stay_after_a_reload(open_page: OpenPage) -> None:
    page = await open_page("/")
    await page.get_by_label("Theme").select_option("dark")
    await page.get_by_label("Language").select_option("zh")
    await page.reload()
    await expect(page.get_by_role("heading", level=1, name="会话")).to_be_visible()
    assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert await page.evaluate("document.documentElement.lang") == "zh"
    await page.goto(page.url.rstrip("/") + "/sessions/100%25")
    await expect(page.get_by_role("alert")).to_contain_text("会话不存在。")
    await page.goto(page.url.replace("sessions/100%25", "write/wenhou"))
    await expect(page.get_by_text("您叫什么名字？")).to_be_visible()
    await expect(page.get_by_role("tabpanel")).to_contain_text("没有问题。")


def test_the_pages_refer_to_no_other_host() -> None:
    index = (PAGES / "index.html").read_text("utf-8")
    assert "http" not in index.replace("http-equiv", "")
    assert list(PAGES.rglob("*.map")) == []


async def test_screen_that_does_not_load_is_loaded_later(open_page: OpenPage) -> None:
    page = await open_page("/sessions")
    await expect(page.get_by_role("heading", level=1, name="Sessions")).to_be_visible()
    await page.route("**/assets/**", lambda route: route.abort("connectionrefused"))
    await page.route("**/health", lambda route: route.abort("connectionrefused"), times=1)
    await page.get_by_role("link", name="Memory").click()
    await expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    await page.unroute("**/assets/**")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("heading", name="Memory")).to_be_visible()
