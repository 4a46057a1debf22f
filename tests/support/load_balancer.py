"""Sends the requests of a client to several servers, as a proxy in front of them does."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence

import httpx

from tests.support.api_client import ApiClient
from tests.support.server_process import START_S

PAUSE_S = 0.02
UNAVAILABLE = 503


class LoadBalancer(httpx.AsyncBaseTransport):
    """Sends a request to the next server if one refuses it, answers 503, or hangs up before its answer begins."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = list(urls)
        self.is_closed = False
        self.moved: Counter[str] = Counter()
        """Why requests were sent to another server, or again: the error or status, and how often."""
        self._first = itertools.count()
        self._transport = httpx.AsyncHTTPTransport()

    def client(self) -> ApiClient:
        """Return a client of the servers."""
        return ApiClient(base_url="http://127.0.0.1", timeout=START_S, transport=self)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the first answer that is not 503. Raises ConnectError once the balancer is closed."""
        content = await request.aread()
        async with asyncio.timeout(START_S):
            for place in itertools.count(next(self._first)):
                if self.is_closed:
                    raise httpx.ConnectError("the load balancer is closed")
                there = httpx.URL(self.urls[place % len(self.urls)])
                url = request.url.copy_with(host=there.host, port=there.port)
                sent = httpx.Request(
                    request.method, url, headers=request.headers, content=content, extensions=request.extensions
                )
                try:
                    answer = await self._transport.handle_async_request(sent)
                except httpx.TransportError as error:
                    self.moved[type(error).__name__] += 1
                else:
                    if answer.status_code != UNAVAILABLE:
                        return answer
                    await answer.aread()
                    self.moved[str(answer.status_code)] += 1
                await asyncio.sleep(PAUSE_S)
        raise AssertionError("the loop ends with an answer")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()
