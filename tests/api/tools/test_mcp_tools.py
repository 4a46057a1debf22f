"""Tools of an MCP server, which a server of ours starts as a command."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from api.settings import McpServer, ToolProvider
from api.tools import mcp_tools
from api.tools.mcp_tools import McpTools
from runtime.models.hosted.settings import Secret
from runtime.state.tool_ports import ToolCallFailed
from tests.api.tools.test_python_tools import ORDER, SCRIPT
from tests.support.fixture_types import OpenApp
from tests.support.paths import PROCESSES

pytest.importorskip("mcp", reason="needs the extra mcp")


async def said(app: OpenApp, folder: Path, *tools: str, params: str = ORDER, given: str = "{order: =number}"):
    """Return what a session says for each of these tools of the MCP server, one after the other."""
    command = [sys.executable, str(PROCESSES / "mcp_server.py"), str(folder / "calls")]
    servers = {"shop": McpServer(command=command, env={"SHOP_MOOD": Secret("happily")})}
    providers = {f"lookup{number}": ToolProvider(mcp="shop", tool=tool) for number, tool in enumerate(tools)}
    found: list[str] = []
    async with app(folder, tools="live", mcp_servers=servers, tool_providers=providers) as api:
        for number in range(len(tools)):
            text = SCRIPT.replace("PARAMS", params).replace("GIVEN", given).replace("300 ms", "20 s")
            text = text.replace("tool: lookup", f"tool: lookup{number}")
            await api.publish_script(text.replace("20 s", "1 s") if tools[number] == "hang" else text)
            turn = await api.send_texts(await api.create_session("shop"), "17")
            found.append(turn["messages"][0]["content"])
    return found


@pytest.mark.gate
async def test_tool_of_a_command_is_called(app: OpenApp, tmp_path: Path):
    assert await said(app, tmp_path, "lookup_order", "lookup_order") == ["status: 17 happily."] * 2
    assert (tmp_path / "calls").read_text() == "17\n17\n"


async def test_result_in_a_text_is_read_as_it_is_declared(app: OpenApp, tmp_path: Path):
    declared = ORDER + ", result: {type: object}"
    assert await said(app, tmp_path, "lookup_as_text", params=declared) == ["status: 17 in a text."]
    assert await said(app, tmp_path / "text", "lookup_as_text") == ['{"status": "17 in a text"}.']


@pytest.mark.gate
async def test_result_that_the_sdk_wraps_is_unwrapped(app: OpenApp, tmp_path: Path):
    declared = ORDER + ", result: {type: string}"
    assert await said(app, tmp_path, "name_status", params=declared) == ["17 is on its way."]
    declared = ORDER + ", result: {type: object, required: [status]}"
    assert await said(app, tmp_path / "object", "write_status", params=declared) == ["status: 17 in a text."]


async def test_log_has_no_words_that_a_server_writes():
    tools = McpTools({"shop": McpServer(command=[sys.executable, "-c", "print('words about Ana')"])}, 10_000)
    with capture_logs() as lines, pytest.raises(ToolCallFailed, match="cannot be"):
        await tools.call("shop", "lookup_order", {"order": "17"}, "k")
    await tools.close()
    assert "the MCP SDK reports a problem" in [line["event"] for line in lines]
    assert "Ana" not in str(lines)


@pytest.mark.gate
async def test_failure_of_the_tool_shows_no_text_of_it(app: OpenApp, tmp_path: Path):
    assert await said(app, tmp_path, "fail") == ["error: the MCP server reports that the tool failed"]


@pytest.mark.gate
async def test_server_that_hangs_or_ended_is_started_again(app: OpenApp, tmp_path: Path):
    found = await said(app, tmp_path, "lookup_order", "end_process", "hang", params="{}", given="{}")
    assert found[1] == "unreachable: the MCP server cannot be reached"
    assert found[2] == "timeout: the tool did not answer in time"


async def test_command_that_does_not_exist_is_unreachable(app: OpenApp, tmp_path: Path):
    servers = {"shop": McpServer(command=["no-such-program"])}
    providers = {"lookup": ToolProvider(mcp="shop")}
    async with app(tmp_path, tools="live", mcp_servers=servers, tool_providers=providers) as api:
        text = SCRIPT.replace("PARAMS", ORDER).replace("GIVEN", "{order: =number}")
        await api.publish_script(text.replace("300 ms", "20 s"))
        turn = await api.send_texts(await api.create_session("shop"), "17")
        assert turn["messages"][0]["content"] == "unreachable: the MCP server cannot be started or reached"


@pytest.mark.gate
async def test_result_that_cannot_be_read_leaves_the_connection_open(tmp_path: Path):
    command = [sys.executable, str(PROCESSES / "mcp_server.py"), str(tmp_path / "calls")]
    tools = McpTools({"shop": McpServer(command=command)}, 10_000)
    before = tools._connections["shop"].open()
    with pytest.raises(ToolCallFailed, match="does not match") as failed:
        await tools.call("shop", "unpriced", {}, "k")
    assert failed.value.failure.kind == "result"
    assert tools._connections["shop"].open() is before
    await tools.close()


@pytest.mark.gate
async def test_late_failure_of_a_call_leaves_the_new_connection_open(tmp_path: Path):
    command = [sys.executable, str(PROCESSES / "mcp_server.py"), str(tmp_path / "calls")]
    tools = McpTools({"shop": McpServer(command=command)}, 10_000)
    connection = tools._connections["shop"]
    before = connection.open()
    await before
    await connection.close(before)
    await tools.call("shop", "lookup_order", {"order": "17"}, "k")
    after = connection.open()
    await connection.close(before)
    assert connection.open() is after
    await tools.close()


async def test_call_that_waits_for_a_start_fails_at_the_close(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mcp_tools, "STOP_S", 0.1)
    tools = McpTools({"shop": McpServer(command=[sys.executable, "-c", "import time; time.sleep(600)"])}, 10_000)
    call = asyncio.create_task(tools.call("shop", "lookup_order", {}, "k"))
    await asyncio.sleep(0.5)
    await tools.close()
    with pytest.raises(ToolCallFailed, match="cannot be started"):
        await asyncio.wait_for(call, 10)


BREAKING = """
import json, pathlib, sys
first = pathlib.Path(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    number, method = asked.get("id"), asked.get("method")
    answer = {"error": {"code": -32601, "message": "unknown"}}
    if method == "initialize":
        spoken = asked["params"]["protocolVersion"]
        about = {"name": "breaking", "version": "1"}
        answer = {"result": {"protocolVersion": spoken, "capabilities": {"tools": {}}, "serverInfo": about}}
    if method == "tools/list":
        answer = {"result": {"tools": [{"name": "tell", "inputSchema": {"type": "object"}}]}}
    if method == "tools/call":
        answer = {"result": {"content": [{"type": "text", "text": "told"}]}}
        if not first.exists():
            first.touch()
            sys.stdout.buffer.write(b"\\xff\\n")
            sys.stdout.buffer.flush()
            continue
    if number is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": number} | answer), flush=True)
"""


@pytest.mark.gate
async def test_connection_whose_end_was_not_noticed_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The SDK stops reading after a byte that is no text, and lets all later calls wait."""
    monkeypatch.setattr(mcp_tools, "ANSWER_S", 0.2)
    command = [sys.executable, "-c", BREAKING, str(tmp_path / "first")]
    tools = McpTools({"shop": McpServer(command=command)}, 10_000)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(8):
            await tools.call("shop", "tell", {}, "k")
    async with asyncio.timeout(30):
        while True:
            with suppress(TimeoutError, ToolCallFailed):  # until the connection is closed
                async with asyncio.timeout(8):
                    assert await tools.call("shop", "tell", {}, "k") == "told"
                    break
    await tools.close()


@pytest.mark.gate
async def test_end_of_the_tools_waits_for_closing_connections(tmp_path: Path):
    """Otherwise the process of the MCP server outlives ours."""
    command = [sys.executable, "-c", BREAKING + "import time; time.sleep(1)", str(tmp_path)]
    tools = McpTools({"shop": McpServer(command=command)}, 10_000)
    assert await tools.call("shop", "tell", {}, "k") == "told"
    connection = tools._connections["shop"]
    closing = asyncio.create_task(connection.close(connection.open()))
    await asyncio.sleep(0.1)
    closing.cancel()
    await tools.close()
    assert asyncio.all_tasks() <= {asyncio.current_task(), closing}
