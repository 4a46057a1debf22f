"""The asynchronous client of a server."""

from types import TracebackType
from typing import Self

import httpx

from api.client.analytics import Analytics
from api.client.memory import Memory
from api.client.sessions import Sessions
from api.client.wire import Patience, Wire

DEFAULT_URL = "http://127.0.0.1:8000"
_PATIENCE = Patience()


class Client:
    """A server of Cuebook: ``async with Client() as cuebook: await cuebook.sessions.create("ana")``.

    Requests that fail for a moment are sent again, and are carried out once however often they are sent.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        patience: Patience = _PATIENCE,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(patience.answer_s, connect=patience.connect_s),
            transport=transport,
        )
        wire = Wire(self._http, patience)
        self.sessions = Sessions(wire)
        self.memory = Memory(wire)
        self.analytics = Analytics(wire)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its connections."""
        await self._http.aclose()
