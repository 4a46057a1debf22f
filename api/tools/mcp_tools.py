"""Tools of MCP servers (Model Context Protocol), through its official SDK, which is imported on first use.

Each server of the settings has one connection, held by a task of its own because the SDK must close it in the task that
opened it. A connection that broke is opened again by the next call.
"""

import asyncio
import logging
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from api.background import cancel_all, retain
from api.settings import McpServer
from runtime.state.tool_ports import ToolCallFailed
from scripts.expressions.values import Value

if TYPE_CHECKING:
    from mcp import Client

log = structlog.get_logger()

START_S = 30.0  # for a server to start and to say what it speaks
STOP_S = 5.0
PIPES_S = 0.05  # in which the event loop closes the pipes of a process that has ended
ANSWER_S = 5.0  # for a server to show that it lives, after a call that took too long
CONNECTION_CLOSED = -32_000  # a code of the SDK itself: the server ended during the call
_REFUSALS = frozenset({-32_700, -32_600, -32_601, -32_602})  # of JSON-RPC: the same request is refused again
KEY_META = "cuebook/idempotency-key"  # in the metadata of a call: the same for every attempt at it


class _SdkLines(logging.Handler):
    """Writes warnings of the SDK as lines of our log, without their texts: these quote what a server sent, which may be
    personal.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        error = record.exc_info[0] if record.exc_info else None
        name = None if error is None else error.__name__
        log.warning("the MCP SDK reports a problem", place=f"{record.name}:{record.lineno}", error=name)


logging.getLogger("mcp").addHandler(_SdkLines(logging.WARNING))


class McpTools:
    """The MCP servers of the settings, by name."""

    def __init__(self, servers: Mapping[str, McpServer], bytes_max: int) -> None:
        self._connections = {name: _Connection(name, server) for name, server in servers.items()}
        self._bytes_max = bytes_max

    async def call(self, server: str, tool: str, arguments: Mapping[str, Value], key: str) -> object:
        """Return the structured result of a tool, or its text. Raises ToolCallFailed."""
        connection = self._connections.get(server)
        if connection is None:
            raise ToolCallFailed("unavailable", f"the server's settings have no `[mcp_servers.{server}]`")
        opened = connection.open()
        # shielded: a call that is given up must not end the start for the others
        client = await asyncio.shield(opened)
        meta: Any = {KEY_META: key}  # the protocol allows any field, the type of the SDK lists its own
        try:
            answer = await client.call_tool(tool, dict(arguments), meta=meta)
        except asyncio.CancelledError:  # it took too long
            connection.check(client, opened)
            raise
        except Exception as error:
            raise await _failure(error, connection, opened) from error
        return self._result(answer)

    def _result(self, answer: Any) -> object:
        if answer.is_error:
            raise ToolCallFailed("error", "the MCP server reports that the tool failed")
        result = answer.structured_content
        if result is None:
            texts = [each.text for each in answer.content if each.type == "text"]
            if len(texts) < len(answer.content):
                raise ToolCallFailed("result", "the MCP server answered with something else than texts")
            result = texts[0] if len(texts) == 1 else texts or None
        if len(msgspec.json.encode(result)) > self._bytes_max:
            message = f"the answer is larger than {self._bytes_max:,} bytes; see `tool_result_bytes_max`"
            raise ToolCallFailed("result", message)
        return result

    async def close(self) -> None:
        """Close all connections, and stop the servers that they started."""
        for connection in self._connections.values():
            await connection.end()


async def _failure(error: Exception, connection: "_Connection", opened: "asyncio.Future[Client]") -> ToolCallFailed:
    """Return the failure that an error of the SDK means. Its text is the server's and is not shown."""
    from mcp import MCPError

    if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED:
        message = f"the MCP server refused the call (code {error.code})"
        return ToolCallFailed("error", message, retryable=error.code not in _REFUSALS)
    if isinstance(error, RuntimeError | ValueError):  # of the SDK; the connection is in order
        log.warning("the result of an MCP server cannot be read", server=connection.name, error=type(error).__name__)
        return ToolCallFailed("result", "the result of the MCP server does not match its schema, or is no result")
    log.warning("an MCP server cannot be called", server=connection.name, error=type(error).__name__)
    await connection.close(opened)
    return ToolCallFailed("unreachable", "the MCP server cannot be reached")


class _Connection:
    """The connection to one server, opened on first use."""

    def __init__(self, name: str, server: McpServer) -> None:
        self.name = name
        self._server = server
        self._ready: asyncio.Future[Client] | None = None  # until the connection is closed or has ended
        self._stop = asyncio.Event()
        self._holders: set[asyncio.Task[None]] = set()  # of the open connection, and of those that are being closed
        self._checks: set[asyncio.Task[None]] = set()

    def check(self, client: "Client", opened: "asyncio.Future[Client]") -> None:
        """Close the connection in the background if the server does not answer: the SDK does not notice every end, so
        that all later calls would wait for nothing.
        """
        if not self._checks:
            retain(self._checks, asyncio.create_task(self._check(client, opened)))

    async def _check(self, client: "Client", opened: "asyncio.Future[Client]") -> None:
        from mcp import MCPError

        try:
            async with asyncio.timeout(ANSWER_S):
                await client.send_ping()
        except Exception as error:  # noqa: BLE001  (whatever the SDK and its transports raise)
            if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED:
                return  # a refusal is an answer
            log.warning("an MCP server does not answer and is closed", server=self.name, error=type(error).__name__)
            await self.close(opened)

    def open(self) -> "asyncio.Future[Client]":
        """Return the client, which is ready once the connection is open; a failure to open it is a ToolCallFailed."""
        if self._ready is None:
            self._ready, self._stop = asyncio.get_running_loop().create_future(), asyncio.Event()
            retain(self._holders, asyncio.create_task(self._hold(self._ready, self._stop)))
        return self._ready

    async def end(self) -> None:
        """Close the connection, which is not used again."""
        await cancel_all(*self._checks)
        await self.close()

    async def close(self, opened: "asyncio.Future[Client] | None" = None) -> None:
        """Close the connection, or only the one that `opened` is if another may have replaced it since."""
        if opened is not None and opened is not self._ready:
            return
        self._ready = None
        self._stop.set()
        if closing := set(self._holders):
            await asyncio.wait(closing, timeout=STOP_S)
            await cancel_all(*closing)

    async def _hold(self, ready: "asyncio.Future[Client]", stop: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(START_S) as limit, _client(self._server) as client:
                limit.reschedule(None)
                ready.set_result(client)
                await stop.wait()
        except ImportError:
            message = "MCP needs the extra `mcp`: pip install 'cuebook[mcp]'"
            _refuse(ready, ToolCallFailed("unavailable", message))
        except Exception as error:  # noqa: BLE001  (whatever the SDK, its transports and the process raise)
            log.warning("the connection to an MCP server ended", server=self.name, error=type(error).__name__)
        finally:  # also if the start is cancelled: calls wait for it
            _refuse(ready, ToolCallFailed("unreachable", "the MCP server cannot be started or reached"))
            if self._ready is ready:
                self._ready = None
            await asyncio.sleep(PIPES_S)


def _refuse(ready: "asyncio.Future[Client]", failed: ToolCallFailed) -> None:
    if not ready.done():
        ready.set_exception(failed)
        ready.exception()  # marks it as seen, because the call that waited may have been given up


def _client(server: McpServer) -> AbstractAsyncContextManager["Client"]:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    if server.url:
        return Client(server.url)
    program, *arguments = server.command
    environment = {name: value.reveal() for name, value in server.env.items()}
    parameters = StdioServerParameters(command=program, args=arguments, env=environment)
    return Client(stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr))
