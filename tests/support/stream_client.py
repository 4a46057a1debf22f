"""A client of server-sent events that checks what it receives."""

import json
from collections.abc import AsyncIterator, Callable

import httpx

from tests.support.api_client import Json


class StreamClient:
    """A client that assembles messages from deltas, and fails if an event is missing, repeated or contradicted."""

    def __init__(self) -> None:
        self.last_id = ""
        self.seq = 0  # of the last complete event
        self.kinds: list[str] = []
        self.partial_texts: dict[int, str] = {}  # by the number of a message that is not complete yet
        self.transcript: list[tuple[str, str]] = []
        self.proactive: list[Json] = []  # turns in which the session spoke by itself
        self.turn: Json = None
        self.error: Json = None
        self._rest = b""
        self._stream: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes]

    def feed(self, chunk: bytes) -> None:
        """Process some bytes of the stream."""
        *frames, self._rest = (self._rest + chunk).split(b"\n\n")
        for frame in frames:
            fields = dict(line.split(": ", 1) for line in frame.decode().split("\n") if not line.startswith(":"))
            if "event" in fields:
                self.last_id = fields.get("id", self.last_id)
                self._process(fields["event"], json.loads(fields["data"]))

    def disconnect(self) -> None:
        """Forget the incomplete frame, as a client does whose connection broke."""
        self._rest = b""

    def _process(self, kind: str, data: Json) -> None:
        self.kinds.append(kind)
        match kind:
            case "message.delta":
                self.partial_texts[data["message"]] = self.partial_texts.get(data["message"], "") + data["text"]
            case "message.reset":
                self.partial_texts = {
                    number: text for number, text in self.partial_texts.items() if number < data["message"]
                }
            case "turn":
                assert self.partial_texts == {}
                self.turn = data
            case "error":
                assert self.partial_texts == {}
                self.error = data["error"]
            case "message.proactive":
                assert self.partial_texts == {}
                self.proactive.append(data)
                shown = [(each["role"], each["content"]) for each in data["messages"]]
                assert self.transcript[-len(shown) :] == shown
            case "position":
                pass
            case _:
                self.seq += 1
                assert self.last_id.rpartition(":")[2] == str(self.seq)
                if kind == "message":
                    assert self.partial_texts.pop(data["number"], data["content"]) == data["content"]
                    self.transcript.append((data["role"], data["content"]))

    async def receive(
        self, stream: httpx.Response, until: Callable[["StreamClient"], object] = lambda _: False
    ) -> None:
        """Receive events until the condition holds or the stream ends; a later call continues the same stream."""
        assert stream.status_code == 200, await stream.aread()
        assert stream.headers["content-type"].startswith("text/event-stream")
        if stream is not self._stream:
            self._stream, self._chunks = stream, stream.aiter_raw()
        async for chunk in self._chunks:
            self.feed(chunk)
            if until(self):
                return
