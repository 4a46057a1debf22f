"""Replies of tools in cases, in files for `play`, and in recordings."""

from pathlib import Path

import pytest

from runtime.state.tool_ports import ToolFailure, ToolReply
from runtime.tools.replies_file import ToolFileInvalid, read_tool_file
from tests.support.fixture_types import RunCommand, WriteFile

SCRIPT = """
script: shop
tools:
  - tool: lookup_order
    http: {url: "https://shop.example/orders/{{ order }}"}
    params: {order: {type: string}}
    example: {status: an example}
phases:
  - phase: p
    topics:
      - topic: t
        declare: [{var: status, value: unknown}]
        actions:
          - {id: number, ask: Which order?, output: [{get: number, type: text}]}
          - id: look_up
            tool: lookup_order
            with: {order: =number}
            into: {status: status}
            on_fail: {say: "Sorry: {{ failure.kind }}."}
          - {id: answer, say: "It is {{ status }}."}
"""
CASES = """
script: shop.yaml
cases:
  - name: example
    turns: [{expect: [Which order?]}, {say: "17", expect: [It is an example.]}]
  - name: result
    tools: {lookup_order: {status: sent}}
    turns: [{expect: [Which order?]}, {say: "17", expect: [It is sent.]}]
  - name: failure
    tools: {lookup_order: {fail: timeout}}
    turns: [{expect: [Which order?]}, {say: "17", expect: ["Sorry: timeout.", It is unknown.]}]
"""


def test_cases_give_results_and_failures(cuebook: RunCommand, write: WriteFile):
    write("shop.yaml", SCRIPT)
    cases = write("shop.case.yaml", CASES)
    result = cuebook("test", cases)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("tools: {lookup_order: {status", "tools: {lookup_orders: {status", "the script has no tool lookup_orders"),
        ("fail: timeout", "fail: timeot", "`fail` is one of"),
    ],
)
def test_case_with_an_unknown_tool_or_failure(cuebook: RunCommand, write: WriteFile, old: str, new: str, problem: str):
    write("shop.yaml", SCRIPT)
    result = cuebook("test", write("shop.case.yaml", CASES.replace(old, new)))
    assert result.exit_code == 2
    assert problem in result.output


def test_play_takes_replies_from_a_file_and_records_them(cuebook: RunCommand, write: WriteFile, tmp_path: Path):
    script, replies = write("shop.yaml", SCRIPT), write("replies.txt", "17\n")
    tools = write("tools.yaml", "tools: {lookup_order: {each: [{result: {status: on its way}}]}}\n")
    played = cuebook("play", script, "--inputs", replies, "--tools", tools, "--record", "recorded.yaml")
    assert "It is on its way." in played.output
    recorded = read_tool_file(tmp_path / "recorded.yaml")
    assert recorded == {"lookup_order": (ToolReply({"status": "on its way"}),)}
    again = cuebook("play", script, "--inputs", replies, "--model", "scripted:recorded.yaml")
    assert "It is on its way." in again.output
    assert "It is an example." in cuebook("play", script, "--inputs", replies).output


def test_replies_of_a_file(write: WriteFile):
    file = write(
        "tools.yaml", "tools: {a: [1, 2], b: {fail: refused, message: m}, c: {each: [{result: {fail: x}}, 5]}}\n"
    )
    assert read_tool_file(file) == {
        "a": (ToolReply([1, 2]),),
        "b": (ToolReply(failure=ToolFailure("refused", "m")),),
        "c": (ToolReply({"fail": "x"}), ToolReply(5)),
    }


@pytest.mark.parametrize("text", ["tools: [a]", "tools: {a: {fail: nothing}}"])
def test_invalid_file_is_refused(write: WriteFile, text: str):
    with pytest.raises(ToolFileInvalid, match=r"tools\.yaml:1:"):
        read_tool_file(write("tools.yaml", text))
