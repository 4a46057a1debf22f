"""The asynchronous client of a server."""

from typing import Self

import httpx

from api.client.analytics import Analytics
from api.client.memory import Memory
from api.client.session_requests import Sessions
from api.client.transport import HttpTransport, RetryPolicy

DEFAULT_URL = "http://127.0.0.1:8000"
_PATIENCE = RetryPolicy()


class Client:
    """A server of Cuebook: ``async with Client() as cuebook: await cuebook.sessions.create("ana")``.

    `url` is the address of the server, without `/api`, and `key` an API key. `patience` sets timeouts and retries;
    `transport` replaces the connection, for tests. Its parts are `sessions`, `memory` and `analytics`.

    Requests that fail temporarily are sent again; the server carries out each of them once. Raises CuebookError.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        patience: RetryPolicy = _PATIENCE,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(patience.answer_s, connect=patience.connect_s),
            transport=transport,
        )
        wire = HttpTransport(self._http, patience)
        self.sessions = Sessions(wire)
        self.memory = Memory(wire)
        self.analytics = Analytics(wire)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()
