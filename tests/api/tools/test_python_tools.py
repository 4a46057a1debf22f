"""Python functions of installed packages as tools of a server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from api.settings import Settings, ToolProvider
from api.tools.session_tools import ToolCaller
from cuebook import Tool
from runtime.state.tool_ports import ToolCallFailed
from scripts.model.tools import ToolDefinition
from tests.support.fixture_types import OpenApp
from tests.support.paths import ROOT

PACKAGE = ROOT / "tests/data/packages/shop_tools"
SCRIPT = """
script: shop
tools:
  - {tool: lookup, params: PARAMS, changes: false, timeout: 300 ms}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {id: number, ask: Which order?, output: [{get: number, type: text}]}
          - id: look_up
            tool: lookup
            with: GIVEN
            into: found
            on_fail: {say: "{{ failure.kind }}: {{ failure.message }}"}
          - {id: answer, ask: "{{ found }}."}
"""
ORDER = "{order: {type: string}}"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the package of tools."""
    monkeypatch.syspath_prepend(PACKAGE)


async def said(app: OpenApp, folder: Path, entry_point: str, params: str = ORDER, given: str = "{order: =number}"):
    providers = {"lookup": ToolProvider(python=entry_point)} if entry_point else {}
    async with app(folder, tools="live", tool_providers=providers) as api:
        await api.publish_script(SCRIPT.replace("PARAMS", params).replace("GIVEN", given))
        turn = await api.send_texts(await api.create_session("shop"), "17")
        return [message["content"] for message in turn["messages"]]


async def test_function_is_called_with_the_parameters(app: OpenApp, tmp_path: Path):
    assert await said(app, tmp_path, "shop_lookup") == ["status: 17 in en, count: 1."]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("entry_point", "params", "given", "words"),
    [
        ("", ORDER, "{order: =number}", "unavailable: the server's settings have no `[tool_providers.lookup]`"),
        ("nothing", ORDER, "{order: =number}", "unavailable: no installed package has an entry point nothing"),
        ("shop_order", ORDER, "{order: =number}", "unavailable: the entry point shop_order is not a cuebook.Tool"),
        ("shop_missing", ORDER, "{order: =number}", "unavailable: the entry point shop_missing cannot be imported"),
        ("shop_wait", ORDER, "{order: =number}", "arguments: the function does not take these parameters"),
        ("shop_wait", "{seconds: {type: number}}", "{seconds: 1}", "timeout: the tool did not answer in time"),
        ("shop_forever", "{}", "{}", "timeout: the tool did not answer in time"),
        ("shop_fail", "{secret: {type: string}}", "{secret: =number}", "error: the function failed"),
    ],
)
async def test_failure_of_the_function(
    app: OpenApp, tmp_path: Path, entry_point: str, params: str, given: str, words: str
):
    assert (await said(app, tmp_path, entry_point, params, given))[0].startswith(words)


async def test_import_of_a_function_does_not_block_other_calls():
    caller = ToolCaller(Settings(tool_providers={"lookup": ToolProvider(python="shop_large")}))
    call = asyncio.create_task(caller.call(ToolDefinition(id="lookup"), {"order": "17"}, "key"))
    await asyncio.sleep(0.1)
    assert not call.done()
    assert await call == {"status": "17 sent"}


async def test_arguments_are_converted_by_the_annotations():
    @Tool
    def add(first: int, second: int = 2) -> dict[str, Any]:
        return {"sum": first + second}

    assert await add.call({"first": 1}) == {"sum": 3}
    assert add(1, second=1) == {"sum": 2}
    with pytest.raises(ToolCallFailed, match="Expected `int`"):
        await add.call({"first": "one"})
    with pytest.raises(ToolCallFailed, match="unknown field"):
        await add.call({"first": 1, "third": 3})


def test_function_with_unnamed_parameters_is_refused():
    with pytest.raises(TypeError, match="not \\*rest"):
        Tool(lambda *rest: rest)
