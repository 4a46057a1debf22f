"""The JSON Schema says of a script's shape what the reader says."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from api.testing.cases.case_model import CaseFile
from scripts.formats import native
from scripts.model.actions import ACTION_TYPES
from scripts.model.diagnostics import Problems
from scripts.model.script import IncludeFile, Script, StringTable
from scripts.parse.read_script import Source, read_file, read_script
from scripts.yaml.json_schema import json_schema
from scripts.yaml.parser import Mapping, plain_value, read_tree
from tests.support.paths import ROOT

SHAPE = {
    "PYTHON_REFUSED",
    *("UNKNOWN_KEY", "KEY_CONFLICT", "REQUIRED_FIELD_MISSING", "TYPE_MISMATCH", "ENUM_VALUE_INVALID"),
    *("CONSTRAINT_VIOLATION", "ACTION_TYPE_UNKNOWN", "ACTION_AMBIGUOUS", "LOCALE_INVALID", "CLOCK_INVALID"),
}
VALIDATOR = Draft202012Validator(json_schema())


def natives(folder: Path) -> list[Source]:
    """Return the scripts of a folder that begin with `cuebook: 1`; a file may contain several."""
    found = []
    for path in sorted(folder.rglob("*.yaml")):
        source = read_file(path)
        for text in source.text.split("\n---\n"):
            tree = read_tree(text, Problems())
            if isinstance(tree, Mapping) and native.recognises(tree) and tree.get("cuebook") is not None:
                found.append(Source(text, str(path), source.side_files))
    return found


def document(text: str) -> Any:
    tree = read_tree(dedent(text), Problems())
    assert tree is not None
    return plain_value(tree)


def with_action(action: str) -> Any:
    """Return a script with one action, written as YAML."""
    return {
        "cuebook": 1,
        "script": "talk",
        "phases": [{"phase": "main", "topics": [{"topic": "first", "actions": [document(action)]}]}],
    }


SCRIPTS = [each for folder in ("scripts/library", "scripts/checks", "tests") for each in natives(ROOT / folder)]


@pytest.mark.gate
def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.gate
@pytest.mark.parametrize("source", SCRIPTS, ids=lambda source: Path(source.file).stem)
def test_it_takes_and_refuses_what_the_reader_does(source) -> None:
    misshapen = {problem.code for problem in read_script(source).errors if problem.file == source.file} & SHAPE
    assert VALIDATOR.is_valid(document(source.text)) is not bool(misshapen)


def test_it_is_tried_on_scripts_of_both_kinds() -> None:
    sound = [source for source in SCRIPTS if VALIDATOR.is_valid(document(source.text))]
    assert len(sound) >= 10
    assert len(SCRIPTS) - len(sound) >= 10


def mappings(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from mappings(part)


def changed(script: Any) -> Iterator[Any]:
    """Return the script with one mapping at a time given a key too many, or robbed of its first."""
    for index, whole in enumerate(mappings(script)):
        more, fewer = copy.deepcopy(script), copy.deepcopy(script)
        list(mappings(more))[index]["unheard_of"] = ["x"]
        list(mappings(fewer))[index].pop(next(iter(whole)))
        yield from (more, fewer)


@pytest.mark.slow
def test_it_agrees_with_the_reader_on_every_changed_key() -> None:
    script = document((ROOT / "scripts" / "library" / "intake.yaml").read_text("utf-8"))
    for other in changed(script):
        misshapen = {problem.code for problem in read_script(Source(json.dumps(other))).errors} & SHAPE
        assert VALIDATOR.is_valid(other) is not bool(misshapen), other


@pytest.mark.parametrize(
    "action",
    [
        "say: [Hello., Hi.]",
        "say: 5",
        "{ask: Age?, into: age}",
        "{ask: Age?, into: [age]}",
        "{ask: Age?, condition: x > 1}",
        "{ask: Age?, on_fail: goto main/first}",
        "{ask: Age?, on_fail: {goto: first}}",
        "{ask: Age?, on_fail: skip}",
        "{ask: Age?, into: }",
        "{choose: Which?, into: v, choices: [red, {A: blue}, {key: B, text: x, value: 2, do: []}]}",
        "{repeat: x > 2, do: [say: a]}",
        "{repeat: {until: x > 2, max: 5}, do: [say: a]}",
        "{foreach: range(3) as n, do: [say: a]}",
        "{if: true, then: [say: a], else: [end: ]}",
        "show: sea.png",
        "{set: {x: 5, y: [1, a], z: =a + 1}}",
        "{end: }",
    ],
)
def test_short_spellings_are_taken(action) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(with_action(action))] == []


@pytest.mark.parametrize(
    "action",
    [
        "say: {name: x}",
        "{sai: Hello.}",
        "{say: Hello., end: now}",
        "{say: Hello., when: a, condition: b}",
        "{ask: Age?, on_fail: nope}",
        "{ask: Age?, on_fail: {goto: first, other: x}}",
        "{ask: Age?, rounds: 99}",
        "{ask: Age?, rounds: many}",
        "{ask: Age?, output: [age]}",
        "{ask: Age?, into: {var: age, type: numbr}}",
        "{choose: Which?, into: v}",
        "{choose: Which?, choices: [a, b]}",
        "{choose: Which?, into: v, choices: [{A: blue, B: green}]}",
        "{choose: Which?, into: v, choices: [{key: c, value: 1}]}",
        "{foreach: range(3), do: [say: a]}",
        "{repeat: {until: x, max: 0}, do: [say: a]}",
        "{if: x}",
        "just words",
    ],
)
def test_what_the_reader_refuses_is_refused(action) -> None:
    assert not VALIDATOR.is_valid(with_action(action))


def test_every_action_is_there_with_its_docstring() -> None:
    definitions = json_schema()["$defs"]
    offered = [definitions[part["$ref"].rpartition("/")[2]] for part in definitions["Action"]["anyOf"]]
    assert [action["title"] for action in offered] == list(ACTION_TYPES)
    assert [action["description"] for action in offered] == [
        " ".join((kind.__doc__ or "").split()) for kind in ACTION_TYPES.values()
    ]


@pytest.mark.parametrize("kind", [Script, IncludeFile, StringTable, CaseFile])
def test_every_key_has_a_description_for_editors(kind) -> None:
    described = [part for part in mappings(json_schema(kind)) if part.get("additionalProperties") is False]
    unexplained = [
        (part.get("title"), key)
        for part in described
        for key, about in part["properties"].items()
        if len(part["properties"]) > 1 and not about.get("description")
    ]
    assert unexplained == []


def test_key_is_described_by_its_meaning_in_that_part() -> None:
    definitions = json_schema()["$defs"]
    described = {
        kind: definitions[kind]["properties"]["define"]["description"] for kind in ("Detector", "ToolDefinition")
    }
    assert described == {
        "Detector": "What the detector looks for; given to the model.",
        "ToolDefinition": "What the tool does; given to the model.",
    }


def test_descriptions_of_one_part_are_of_its_keys() -> None:
    texts = (ROOT / "scripts/yaml/key_descriptions.yaml").read_text("utf-8")
    kinds = (Script, IncludeFile, StringTable, CaseFile)
    definitions = {name: schema for kind in kinds for name, schema in json_schema(kind)["$defs"].items()}
    for kind, key in (name.split(".") for name in msgspec.yaml.decode(texts) if "." in name):
        assert any(key in part.get("properties", {}) for part in mappings(definitions[kind])), f"{kind}.{key}"


@pytest.mark.parametrize("path", sorted((ROOT / "scripts" / "library").rglob("*.yaml")), ids=lambda path: path.stem)
def test_files_of_scripts_match_the_schema_of_their_kind(path) -> None:
    content = document(path.read_text("utf-8"))
    kind = StringTable if "strings" in content else Script if "script" in content else IncludeFile
    validator = Draft202012Validator(json_schema(kind))
    assert validator.is_valid(content)
    assert not validator.is_valid(content | {"unheard_of": 1})


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests" / "e2e" / "cases").glob("*.case.yaml")), ids=lambda path: path.stem
)
def test_cases_match_their_schema(path) -> None:
    content = document(path.read_text("utf-8"))
    validator = Draft202012Validator(json_schema(CaseFile))
    assert validator.is_valid(content)
    content["cases"][0]["turns"][0]["unheard_of"] = 1
    assert not validator.is_valid(content)
