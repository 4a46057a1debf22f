"""A program that stands for the other machines: an endpoint of a language model, and a receiver of webhooks.

The endpoint answers a chat completion with a stream of words, each the microseconds of the machine's monotonic clock
when it was written. The receiver answers 204. It listens on 127.0.0.1; the arguments are the port, the words a second
and the words of a reply.
"""

import asyncio
import sys
import time

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
RECEIVED = b"HTTP/1.1 204 No Content\r\n\r\n"
PIECE = 'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]}\n\n'
DELTA = '{"index":0,"delta":{"role":"assistant","content":"%015d "},"finish_reason":null}'
END = PIECE % '{"index":0,"delta":{},"finish_reason":"stop"}' + "data: [DONE]\n\n"


def chunk(text: str) -> bytes:
    """Return a chunk of a response."""
    return f"{len(text):x}\r\n{text}\r\n".encode()


async def speak(writer: asyncio.StreamWriter, rate: float, words: int) -> None:
    """Stream a reply."""
    writer.write(STREAM)
    begun = time.monotonic()
    for number in range(words):
        await asyncio.sleep(begun + number / rate - time.monotonic())
        writer.write(chunk(PIECE % (DELTA % (time.monotonic_ns() // 1_000))))
    writer.write(chunk(END) + b"0\r\n\r\n")
    await writer.drain()


async def main() -> None:
    """Serve until the process ends."""
    port, rate, words = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].split(b"\r\n", 1)[0]
                await reader.readexactly(int(length or 0))
                if b"/chat/completions" in head.split(b"\r\n", 1)[0]:
                    await speak(writer, rate, words)
                else:
                    writer.write(RECEIVED)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()  # the client has gone

    async with await asyncio.start_server(serve, "127.0.0.1", port, backlog=1_024) as listening:
        await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
