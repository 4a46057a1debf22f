"""A client of the API for tests: raw HTTP, and short forms that expect success and return the JSON."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias
from urllib.parse import quote

import httpx

OPERATOR_KEY = "operator key of the tests"

Json: TypeAlias = Any
"""A decoded JSON value; tests index into it freely."""


class ApiClient(httpx.AsyncClient):
    """An HTTP client of one server or application."""

    async def read(self, path: str, **parameters: Any) -> Json:
        """Return the JSON of a GET that succeeds."""
        answer = await self.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def read_all(self, path: str, cursor: str | None = None, **parameters: Any) -> list[Json]:
        """Return the rows of all pages of a list, from a cursor on."""
        rows: list[Json] = []
        while True:
            page = await self.read(path, limit=200, **parameters, **({} if cursor is None else {"cursor": cursor}))
            rows += page["data"]
            cursor = page["nextCursor"]
            if cursor is None:
                return rows

    async def operations(self) -> list[tuple[str, str]]:
        """Return the method and the path of every operation of the API."""
        paths = (await self.read("/schema/openapi.json"))["paths"]
        return [(method.upper(), path) for path, item in paths.items() for method in item if method != "parameters"]

    async def publish_script(self, text: str, *, strict: bool = True, **fields: Any) -> Json:
        """Publish a script; one that is not `strict` is imported with the compatible reading."""
        path = "/api/scripts" if strict else "/api/scripts/import"
        answer = await self.post(path, json={"yamlContent": text, **fields})
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()

    async def create_session(self, script: str, *, user: str = "ana", **fields: Any) -> Json:
        """Create a session of a user."""
        answer = await self.post("/api/sessions", json={"userId": user, "scriptId": script, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def send_texts(self, session: Json, *contents: str) -> Json:
        """Send one text after the other; return the last answer."""
        answers = [await self.send_message(session, {"content": content}) for content in contents]
        for answer in answers:
            assert answer.status_code == 200, answer.text
        return answers[-1].json()

    async def send_message(
        self, session: Json, message: Json, headers: dict[str, str] | None = None, **query: Any
    ) -> httpx.Response:
        """Send a message; the answer may be an error."""
        path = f"/api/sessions/{session['sessionId']}/messages"
        return await self.post(path, json=message, headers=headers, params=query)

    async def create_key(self, *roles: str, tenant: str = "default", user: str | None = None, **fields: Any) -> str:
        """Create a key with the operator's rights; return it for the header ``Authorization``."""
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}", "X-Cuebook-Tenant": quote(tenant)}
        body = {"name": "a test", "roles": roles or ["app"], "userId": user, **fields}
        answer = await self.post("/api/keys", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        return f"Bearer {answer.json()['key']}"

    async def wait_for_events(self, path: str, after: int, seconds: int) -> httpx.Response:
        """Long-poll a page of events, again while all subscriptions of the session are in use."""
        while True:
            answer = await self.get(path, params={"after": after}, headers={"Prefer": f"wait={seconds}"})
            if answer.status_code != 429:
                return answer
            await asyncio.sleep(0.01)

    async def wait_for_full_stream(self, path: str) -> None:
        """Wait until all subscriptions of a session are in use; each attempt takes a second."""
        while (await self.get(path, params={"after": 1_000_000}, headers={"Prefer": "wait=1"})).status_code != 429:
            pass

    def open_stream(
        self, path: str, body: Json = None, headers: dict[str, str] | None = None, **query: Any
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """Open a stream: of one turn where a body is sent, else of the events of a session."""
        accepting = {"Accept": "text/event-stream"} | (headers or {})
        return self.stream("GET" if body is None else "POST", path, json=body, headers=accepting, params=query)

    async def transcript(self, session: Json) -> list[tuple[str, str]]:
        """Return all messages of a session as (role, content), with the roles of the events."""
        messages = await self.read_all(f"/api/sessions/{session['sessionId']}/messages", "0")
        roles = {"ai": "assistant"}
        return [(roles.get(message["role"], message["role"]), message["content"]) for message in messages]
