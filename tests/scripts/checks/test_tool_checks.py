"""What the checker knows of tools: their declarations, and the values that actions pass and store."""

import pytest

from scripts.parse.read_script import Source, read_script

SCRIPT = """
script: shop
declare: [{var: copies, type: number}, {var: title, type: text}, {var: found, type: boolean}]
tools:
  - tool: reserve
    http: {method: POST, url: "https://shop.example/{{ shelf }}", headers: {X-Key: "{{ secret('KEY') }}"}}
    params: {shelf: {type: string}, count: {type: integer, default: 1}}
    result: {type: object, properties: {number: {type: integer}, names: {type: array}}}
    example: {number: 7, names: []}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {id: ask_copies, ask: How many?, output: [{get: copies}]}
          - {id: reserve, tool: reserve, with: {shelf: A, count: =copies}, into: {copies: number}, timeout: 10 s}
          - {id: bye, say: "{{ copies }} {{ title }} {{ found }}"}
"""


def problems(text: str) -> list[str]:
    reading = read_script(Source(text))
    return [f"{each.code} {each.message}" for each in reading.problems if each.severity == "error"]


def test_valid_declaration_and_call_have_no_problem():
    assert problems(SCRIPT) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("tool: reserve, with", "tool: reserv, with", "TOOL_UNKNOWN unknown tool reserv"),
        ("{shelf: A, ", "{shelve: A, ", "PARAMETER_UNKNOWN the tool reserve has no parameter `shelve`"),
        ("{shelf: A, ", "{", "PARAMETER_MISSING the tool reserve requires `shelf`"),
        ("shelf: A", "shelf: 5", "TOOL_VALUE_MISMATCH `shelf`: expected string"),
        ("=copies", "=title", "TOOL_VALUE_MISMATCH `count` takes a whole number, and `title` is declared as text"),
        ("=copies", "two", "TOOL_VALUE_MISMATCH `count`: expected integer"),
        ("=copies", "=1 +", "EXPRESSION_INVALID"),
        ("{copies: number}", "{copies: numbr}", "RETURN_UNKNOWN the result of reserve has no field `numbr`"),
        (
            "{copies: number}",
            "{found: number}",
            "TOOL_VALUE_MISMATCH `found` is declared as boolean, and the result is a whole number",
        ),
        (
            "{copies: number}",
            "copies",
            "TOOL_VALUE_MISMATCH `copies` is declared as number, and the result is a record",
        ),
        ("timeout: 10 s", "timeout: 10", "CONSTRAINT_VIOLATION '10' is not a time with its unit, such as 10 s"),
        ("timeout: 10 s", "timeout: 10 min", "CONSTRAINT_VIOLATION a timeout is longer than 0 s and at most 120 s"),
        ("https://shop.example/", "https://{{ shelf }}.example/", "TOOL_INVALID the URL must begin with"),
        ("https://shop.example/", "https://shop.example@{{ shelf }}/", "TOOL_INVALID the URL must begin with"),
        ("https://shop.example/", "https://shop.example{{ shelf }}/", "TOOL_INVALID the URL must begin with"),
        ("{{ shelf }}\", h", "{{ shelve }}\", h", "TOOL_INVALID the tool has no parameter `shelve`"),
        ("{{ shelf }}\", h", "{{ secret('KEY') }}\", h", "TOOL_INVALID `secret` exists in headers only"),
        ("X-Key", "Host", "TOOL_INVALID the server sets the header `Host` itself"),
        ("X-Key", "X Key", "TOOL_INVALID 'X Key' is not a valid name of a header"),
        ("{type: array}", "{type: arrray}", "TOOL_INVALID `result` is not a valid JSON Schema"),
        ("{type: array}", "{$ref: 'https://example.org/x'}", "TOOL_INVALID `result` is not a valid JSON Schema"),
        ("names: []}\n", "names: 5}\n", "TOOL_VALUE_MISMATCH `example` does not match `result`: names: expected array"),
    ],
)  # fmt: skip
def test_problem_names_what_is_wrong(old: str, new: str, problem: str):
    assert old in SCRIPT
    assert any(each.startswith(problem) for each in problems(SCRIPT.replace(old, new))), problems(
        SCRIPT.replace(old, new)
    )


def test_null_leaves_out_an_optional_parameter():
    assert problems(SCRIPT.replace("=copies", "null")) == []
    assert problems(SCRIPT.replace("shelf: A", "shelf: null")) == ["TOOL_VALUE_MISMATCH `shelf`: expected string"]


def test_failure_is_known_only_in_on_fail():
    action = "timeout: 10 s, on_fail: {say: '{{ failure.kind }}', do: [{id: x, say: '{{ failure.message }}'}]}"
    text = SCRIPT.replace("timeout: 10 s", action)
    assert problems(text) == []
    reading = read_script(Source(text.replace("{{ found }}", "{{ failure.kind }}")))
    assert "VARIABLE_NEVER_SET" in {each.code for each in reading.problems}


def test_variable_of_a_failed_tool_may_be_unset():
    text = SCRIPT.replace("{copies: number}", "{reserved: number}").replace("{{ found }}", "{{ reserved }}")
    always = {each.code for each in read_script(Source(text)).problems}
    skipped = read_script(Source(text.replace("timeout: 10 s", "timeout: 10 s, on_fail: skip"))).problems
    assert "the tool fails (`on_fail`)" in " ".join(each.message for each in skipped)
    assert {each.code for each in skipped} > always


def test_tools_of_a_side_file_are_known():
    tools = SCRIPT[SCRIPT.index("tools:") : SCRIPT.index("phases:")]
    text = SCRIPT.replace(tools, "use: [tools.yaml]\n")
    reading = read_script(Source(text, side_files={"tools.yaml": tools}))
    assert [each.message for each in reading.errors] == []


OFFERED = """
cuebook: 1
script: shop
declare: [{var: title, type: text}, {var: found, type: boolean}]
tools:
  - tool: find
    define: Finds a book.
    http: {url: "https://shop.example/{{ shelf }}"}
    params: {shelf: {type: string}}
    result: {type: object, properties: {number: {type: integer}}}
actions:
  - chat: Help with the book.
    tools: [{tool: find, into: {title: number}}]
  - {say: "{{ title }}", when: title}
"""


def test_tools_of_a_model_have_no_problem():
    assert [each.code for each in read_script(Source(OFFERED)).problems if each.severity != "note"] == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("{tool: find, into: {title: number}}", "fnd", "TOOL_UNKNOWN unknown tool fnd"),
        ("{title: number}}", "{title: numbr}}", "RETURN_UNKNOWN the result of find has no field `numbr`"),
        ("{title: number}}", "{found: number}}", "TOOL_VALUE_MISMATCH `found` is declared as boolean"),
        ("}}]", "}}, find]", "DUPLICATE_ID the tool find is listed twice"),
        ("http: {url", "http: {method: POST, url", "TOOL_NOT_FOR_MODELS a model calls no tool that changes something"),
        ("define: Finds a book.", "define: ''", "TOOL_NOT_DESCRIBED the tool find has no `define`"),
    ],
)
def test_problem_of_a_tool_of_a_model(old: str, new: str, problem: str):
    assert old in OFFERED
    found = read_script(Source(OFFERED.replace(old, new))).problems
    assert any(f"{each.code} {each.message}".startswith(problem) for each in found), found


def test_variable_set_only_by_a_model_tool_call_may_be_unset():
    found = read_script(Source(OFFERED.replace(", when: title", ""))).problems
    messages = [each.message for each in found if each.code == "VARIABLE_MAYBE_UNSET"]
    assert [("`title`" in each, "the model does not call the tool" in each) for each in messages] == [(True, True)]
