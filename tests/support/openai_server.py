"""An endpoint that speaks OpenAI's chat completions and embeddings over plain HTTP on this machine, and misbehaves on
demand.

In tests the fixture `endpoint` runs it in a thread: ``endpoint.will(status=429, headers={"Retry-After": "1"})`` says
what the next request gets, ``endpoint.requests`` what it was asked. As a program it prints its address, and takes and
returns the same over HTTP: ``POST /will`` (a list of answers), ``GET /requests``; ``--log FILE`` keeps a line for every
request when it comes, and one for what became of it.
"""

import argparse
import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import msgspec
from msgspec import Struct

HEAD_BYTES_MAX = 65_536
START_S = 10.0


class Answer(Struct, frozen=True, kw_only=True):
    """What a request gets. Without anything set: a reply that fits what is asked for, streamed in small pieces."""

    model: str = ""  # only for requests for this model
    content: str | dict[str, Any] | None = None  # what the assistant says; a mapping as JSON
    status: int = 200
    headers: dict[str, str] = {}
    error: dict[str, Any] | str = {}  # with a status that is none of success
    body: str | None = None  # sent as it is, whatever it is: of a stream its events
    wait_s: float = 0.0  # before anything is answered
    pause_s: float = 0.0  # before each piece of a stream
    piece_chars: int = 6
    cut: int | None = None  # the connection is cut after so many pieces; -1: before anything is answered
    finish: str = "stop"  # empty: the stream just ends
    usage: bool = True
    tool_calls: bool = False  # the reply comes as the arguments of a call of a tool
    vectors: list[list[float]] | None = None  # to embed: these instead of ones made of the texts


class Asked(NamedTuple):
    """A request as it came."""

    number: int
    key: str
    body: dict[str, Any]
    connection: int

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def format(self) -> str:
        """The format of the reply that is wanted."""
        return str(self.body.get("response_format", {}).get("type", "text"))

    @property
    def text(self) -> str:
        """Return all its messages."""
        return "\n".join(str(message["content"]) for message in self.body["messages"])

    @property
    def texts(self) -> list[str]:
        """Return what is to be embedded."""
        return list(self.body["input"])


class Endpoint:
    """The server; everything may be used from another thread than the one it runs in."""

    def __init__(self, log: TextIO | None = None) -> None:
        self.requests: list[Asked] = []
        self.paths: list[str] = []  # of the requests, with their queries
        self.outcomes: list[str] = []  # of the requests in the order they ended: answered, cut, gone (the client went)
        self.connections = 0
        self.busy = 0
        self.busy_max = 0  # how many requests there were at one time
        self.refuses: set[str] = set()  # parameters and formats that it refuses: json_schema, stream_options …
        self.url = ""
        self._answers: deque[Answer] = deque()
        self._default = Answer()
        self._log = log
        self._writers: set[asyncio.StreamWriter] = set()

    def will(self, times: int = 1, **answer: Any) -> None:
        """Say what the next requests get."""
        self._answers.extend([msgspec.convert(answer, Answer)] * times)

    def always(self, **answer: Any) -> None:
        """Say what all requests get that nothing else is said of."""
        self._default = msgspec.convert(answer, Answer)

    def wait(self, requests: int) -> None:
        """Wait until so many requests have come."""
        until = time.monotonic() + START_S
        while len(self.requests) < requests:
            assert time.monotonic() < until, f"{len(self.requests)} requests came"
            time.sleep(0.005)

    async def start(self, port: int = 0) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=HEAD_BYTES_MAX)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        return server

    async def stop(self, server: asyncio.Server) -> None:
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    # -- HTTP -----------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        self._writers.add(writer)
        try:
            while (request := await _request(reader)) is not None:
                method, path, headers, body = request
                await self._routed(writer, connection, f"{method} {path}", headers, body)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or all of it ends
        finally:
            self._writers.discard(writer)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _routed(
        self, writer: asyncio.StreamWriter, connection: int, route: str, headers: dict[str, str], body: bytes
    ) -> None:
        self.paths.append(route.partition(" ")[2])
        match route.partition("?")[0]:
            case "POST /v1/chat/completions" | "POST /v1/embeddings":
                await self._asked(writer, connection, headers.get("authorization", ""), json.loads(body))
            case "GET /v1/models":
                await _send(writer, 200, {"object": "list", "data": [{"id": "tiny", "object": "model"}]})
            case "POST /will":
                self._answers.extend(msgspec.json.decode(body, type=list[Answer]))
                await _send(writer, 200, {})
            case "GET /requests":
                asked = [{"number": each.number, "key": each.key, "body": each.body} for each in self.requests]
                await _send(writer, 200, {"requests": asked, "outcomes": self.outcomes})
            case _:
                await _send(writer, 404, {"error": {"message": f"there is no {route}"}})

    async def _asked(self, writer: asyncio.StreamWriter, connection: int, key: str, body: dict[str, Any]) -> None:
        asked = Asked(len(self.requests) + 1, key.removeprefix("Bearer "), body, connection)
        self.requests.append(asked)
        self._write_log({"request": asked.number, "model": asked.model, "body": body})
        self.busy += 1
        self.busy_max = max(self.busy_max, self.busy)
        outcome = "gone"
        try:
            outcome = await self._answered(writer, asked, self._answer(asked))
        finally:
            self.busy -= 1
            self.outcomes.append(outcome)
            self._write_log({"request": asked.number, "outcome": outcome})
        if outcome == "cut":
            writer.transport.abort()
            raise ConnectionResetError

    def _answer(self, asked: Asked) -> Answer:
        refused = next((name for name in sorted(self.refuses) if name in {*asked.body, asked.format}), "")
        if refused:
            what = f"'response_format' of type '{refused}'" if refused.startswith("json") else f"'{refused}'"
            return Answer(status=400, error=f"Invalid parameter: {what} is not supported with this model.")
        for answer in self._answers:
            if answer.model in {"", asked.model}:
                self._answers.remove(answer)
                return answer
        return self._default

    def _write_log(self, line: dict[str, Any]) -> None:
        if self._log is not None:
            self._log.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._log.flush()

    # -- replies --------------------------------------------------------------------------------------------------

    async def _answered(self, writer: asyncio.StreamWriter, asked: Asked, answer: Answer) -> str:
        await asyncio.sleep(answer.wait_s)
        if answer.cut == -1:
            return "cut"
        if answer.status >= 300:
            error = {"message": answer.error, "type": "an_error"} if isinstance(answer.error, str) else answer.error
            await _send(writer, answer.status, {"error": error}, answer.headers)
            return "answered"
        if "input" in asked.body and answer.body is None:
            await _send(writer, 200, _embeddings(asked, answer), answer.headers)
            return "answered"
        if asked.body.get("stream"):
            return await self._streamed(writer, asked, answer)
        if answer.body is not None:
            await _send(writer, 200, answer.body, answer.headers)
            return "answered"
        said = _said(asked, answer)
        message = {"role": "assistant", "content": None, "tool_calls": _call(said)} if answer.tool_calls else {}
        choice = {"index": 0, "message": message or {"role": "assistant", "content": said}, "finish_reason": "stop"}
        usage = {"usage": _usage(asked, said)} if answer.usage else {}
        whole = {"object": "chat.completion", "choices": [choice | {"finish_reason": answer.finish}], **usage}
        await _send(writer, 200, _identity(asked) | whole, answer.headers)
        return "answered"

    async def _streamed(self, writer: asyncio.StreamWriter, asked: Asked, answer: Answer) -> str:
        head = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **answer.headers}
        writer.write(_head(200, head))
        for number, event in enumerate(_events(asked, answer)):
            if answer.cut is not None and number > answer.cut:  # the first event has no words yet
                await writer.drain()
                await asyncio.sleep(0.02)  # what was written is to arrive before the connection breaks
                return "cut"
            await asyncio.sleep(answer.pause_s)
            data = event.encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
            if writer.transport.is_closing():
                raise ConnectionResetError
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return "answered"


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes] | None:
    """Return the next request of a connection; None where the client is done."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    method, path, _ = first.split(" ")
    return method, path, headers, await reader.readexactly(int(headers.get("content-length", 0)))


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Told", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def _send(writer: asyncio.StreamWriter, status: int, body: object, headers: dict[str, str] | None = None) -> None:
    data = (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode()
    own = {"Content-Type": "application/json", "Content-Length": str(len(data))}
    writer.write(_head(status, own | (headers or {})) + data)
    await writer.drain()


def _events(asked: Asked, answer: Answer) -> Iterator[str]:
    """Return the events of a stream, one at a time."""
    if answer.body is not None:
        yield from (f"{event}\n\n" for event in answer.body.split("\n\n") if event)
        return
    said = _said(asked, answer)

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        whole = {"object": "chat.completion.chunk", "choices": [choice], **more}
        return f"data: {json.dumps(_identity(asked) | whole, ensure_ascii=False)}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    for at in range(0, len(said), answer.piece_chars):
        piece = said[at : at + answer.piece_chars]
        yield chunk({"tool_calls": _call(piece, index=0)} if answer.tool_calls else {"content": piece})
    if not answer.finish:
        return
    yield chunk({}, answer.finish)
    if answer.usage and asked.body.get("stream_options", {}).get("include_usage"):
        whole = {"object": "chat.completion.chunk", "choices": [], "usage": _usage(asked, said)}
        yield f"data: {json.dumps(_identity(asked) | whole)}\n\n"
    yield "data: [DONE]\n\n"


def _identity(asked: Asked) -> dict[str, Any]:
    return {"id": f"chatcmpl-{asked.number}", "created": int(time.time()), "model": f"{asked.model}-0613"}


def _call(arguments: str, **more: Any) -> list[dict[str, Any]]:
    return [{"id": "call_1", "type": "function", "function": {"name": "reply", "arguments": arguments}, **more}]


def _usage(asked: Asked, said: str) -> dict[str, Any]:
    spent, given = len(asked.text) // 4, max(1, len(said) // 4)
    cached = {"prompt_tokens_details": {"cached_tokens": spent // 2}}
    return {"prompt_tokens": spent, "completion_tokens": given, "total_tokens": spent + given, **cached}


def _embeddings(asked: Asked, answer: Answer) -> dict[str, Any]:
    """Return a vector for each text, the last first: clients are to go by `index`."""
    vectors = answer.vectors or [_vector(text) for text in asked.texts]
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    spent = sum(map(len, asked.texts)) // 4
    usage = {"prompt_tokens": spent, "total_tokens": spent}
    return {"object": "list", "data": data[::-1], "model": asked.model, "usage": usage}


def _vector(text: str) -> list[float]:
    """Return how often each letter is in a text; texts with the same letters are near each other."""
    return [float(text.casefold().count(letter)) + 0.01 for letter in "abcdefghijklmnopqrstuvwxyz"]


def _said(asked: Asked, answer: Answer) -> str:
    if isinstance(answer.content, str):
        return answer.content
    if answer.content is not None:
        return json.dumps(answer.content, ensure_ascii=False)
    schema = asked.body.get("response_format", {}).get("json_schema", {}).get("schema")
    if schema is not None:
        return json.dumps(_fitting(schema, schema, f"These are the words of reply {asked.number}."))
    return json.dumps({"exit": True, "text": f"These are the words of reply {asked.number}."})


def _fitting(schema: dict[str, Any], whole: dict[str, Any], words: str) -> Any:
    """Return something that fits a plain JSON schema; every text is the same."""
    if "$ref" in schema:
        return _fitting(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, words)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _fitting(schema[several][0], whole, words)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return {name: _fitting(each, whole, words) for name, each in schema.get("properties", {}).items()}
        case "array":
            return []
        case "boolean":
            return True
        case "integer" | "number":
            return 1
        case "null":
            return None
        case _:
            return words


@contextmanager
def running() -> Iterator[Endpoint]:
    """Return an endpoint in a thread of its own."""
    endpoint = Endpoint()
    started, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def live() -> None:
        server = await endpoint.start()
        started.set()
        await stop.wait()
        await endpoint.stop(server)

    thread = threading.Thread(target=loop.run_until_complete, args=(live(),))
    thread.start()
    try:
        assert started.wait(START_S)
        yield endpoint
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(START_S)
        loop.close()


async def _main(endpoint: Endpoint, port: int) -> None:
    server = await endpoint.start(port)
    print(endpoint.url, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, help="where to keep a line for every request")
    parser.add_argument("--answers", type=Path, help="a JSON file with the list of what the first requests get")
    given = parser.parse_args()
    endpoint = Endpoint(given.log.open("a", encoding="utf-8") if given.log else None)
    for each in json.loads(given.answers.read_text("utf-8")) if given.answers else ():
        endpoint.will(**each)
    with suppress(KeyboardInterrupt):
        asyncio.run(_main(endpoint, given.port))
