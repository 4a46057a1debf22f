"""Bounds the time that a client takes to send the body of a request."""

import asyncio

from litestar.types import Receive, ReceiveMessage

from api.errors import ApiError

BYTES_A_SECOND = 16_384
"""What a client must send at least, once the time for any body is over."""


def within(receive: Receive, seconds: float) -> Receive:
    """A `receive` that raises ApiError REQUEST_TIMEOUT where a body takes longer than `seconds`.

    Each BYTES_A_SECOND that have come extend it by a second, so that a large body may come over a slow line.
    """
    deadline = 0.0
    is_whole = False

    async def call() -> ReceiveMessage:
        nonlocal deadline, is_whole
        if is_whole:  # what is waited for now is the end of the connection
            return await receive()
        deadline = deadline or asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise ApiError("REQUEST_TIMEOUT", f"the body was not sent within {seconds:g} s (`receive_s`)") from None
        if message["type"] == "http.request":
            deadline += len(message.get("body", b"")) / BYTES_A_SECOND
            is_whole = not message.get("more_body", False)
        return message

    return call
