"""YAML as a tree: the YAML 1.2 core schema, places, merge keys and bounds."""

import pytest

from scripts.model.diagnostics import Problems
from scripts.yaml.parser import FILE_CHARS_MAX, Mapping, Scalar, plain_value, read_tree


def tree_of(text):
    problems = Problems("talk.yaml")
    tree = read_tree(text, problems)
    assert tree is not None, problems.sorted()
    return tree


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("off", "off"),
        ("true", True),
        ("FALSE", False),
        ("tRue", "tRue"),
        ("", None),
        ("~", None),
        ("null", None),
        ("12", 12),
        ("-3", -3),
        ("+5", 5),
        ("012", 12),
        ("0x1F", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("2e3", 2000.0),
        ("1e999", "1e999"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("9" * 41, "9" * 41),
        ("12:30", "12:30"),
        ("2026-01-31", "2026-01-31"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("''", ""),
        ("!!str 12", "12"),
        ("|-\n  12", "12"),
        ("[yes, 1, ~]", ["yes", 1, None]),
        ("{a: {b: 1}, 2: c}", {"a": {"b": 1}, "2": "c"}),
    ],
)
def test_scalars_follow_yaml_1_2(written, value) -> None:
    read = plain_value(tree_of(f"key: {written}\n"))["key"]
    assert (read, type(read)) == (value, type(value))


def test_what_a_mapping_says_itself_wins_over_what_it_merges() -> None:
    tree = tree_of("base: &base {tone: warm, rounds: 3}\nmine: {rounds: 5, <<: *base}\n")
    assert plain_value(tree)["mine"] == {"rounds": 5, "tone": "warm"}


def test_of_several_merged_mappings_the_first_wins() -> None:
    tree = tree_of("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}\n")
    assert plain_value(tree)["c"] == {"x": 1, "y": 2}


def test_a_quoted_merge_key_is_a_key_like_any_other() -> None:
    assert plain_value(tree_of('"<<": {a: 1}\n')) == {"<<": {"a": 1}}


def test_only_a_mapping_can_be_merged() -> None:
    problems = Problems()
    read_tree("a: {<<: 5}\n", problems)
    assert [(p.code, p.line, p.column) for p in problems.sorted()] == [("SYNTAX_ERROR", 1, 9)]


def test_every_part_knows_its_place() -> None:
    tree = tree_of("first: 1\nsecond:\n  - one\n  - {key: two}\ntext: |\n  begins here\n")
    places = {}

    def note(part, path):
        places[path] = (part.at.line, part.at.column)
        if isinstance(part, Mapping):
            for key, value in part.pairs:
                note(value, f"{path}.{key.text}")
        elif not isinstance(part, Scalar):
            for index, item in enumerate(part.items):
                note(item, f"{path}[{index}]")

    note(tree, "")
    assert places == {
        "": (1, 1),
        ".first": (1, 8),
        ".second": (3, 3),
        ".second[0]": (3, 5),
        ".second[1]": (4, 5),
        ".second[1].key": (4, 11),
        ".text": (5, 7),
    }
    text = tree.get("text")
    assert isinstance(text, Scalar)
    assert text.content_at.line == 6


def test_an_alias_stands_where_its_anchor_does() -> None:
    tree = tree_of("a: &x {b: 1}\nc: *x\n")
    assert tree.get("c") == tree.get("a")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("# " + "x" * FILE_CHARS_MAX, "DOCUMENT_TOO_LARGE"),
        ("[" * 5_000 + "]" * 5_000, "DOCUMENT_TOO_DEEP"),
        ("{a: " * 5_000 + "1" + "}" * 5_000, "DOCUMENT_TOO_DEEP"),
        ("- " * 5_000 + "x", "DOCUMENT_TOO_DEEP"),
        ("[" + "x," * 200_001 + "]", "ALIAS_LIMIT"),
        ("a: &a [*a]", "ALIAS_LIMIT"),
        ("a: &a {b: *a}", "ALIAS_LIMIT"),
        ("? [a, b]\n: c", "SYNTAX_ERROR"),
        ("a: \x07", "SYNTAX_ERROR"),
        ("a: \ud800", "SYNTAX_ERROR"),
        ('a: "\\ud800"', "SYNTAX_ERROR"),
        ("a: 'b", "SYNTAX_ERROR"),
        ("a: %b", "SYNTAX_ERROR"),
        ("a: !mine b", "SYNTAX_ERROR"),
        ("a: !!python/object/apply:os.system [ls]", "SYNTAX_ERROR"),
        ("a: !!int 5", "SYNTAX_ERROR"),
        ("# only a comment", "UNRECOGNISED_SCRIPT"),
    ],
    ids=lambda value: value if len(value) < 30 else value[:10],
)
def test_what_cannot_be_read_is_refused_with_one_problem(text, code) -> None:
    problems = Problems()
    assert read_tree(text, problems) is None
    assert [problem.code for problem in problems.sorted()] == [code]


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("a:\n\tb: 1", "spaces"),
        ("a: b: c", 'Put quotes around the text: a: "b: c"'),
        ("- id: x\n    exit: y", "Start `exit` in column 3, below `id` of line 1"),
        ("a: @b", "quotes"),
        ("a: &mood 1\nb: *moood", "Did you mean *mood?"),
        ("a: 1\nb\nc: 2", "colon"),
        ("a：1\n# first\nb: 2", "': '"),
    ],
)
def test_a_syntax_error_comes_with_its_cure(text, fix) -> None:
    problems = Problems()
    read_tree(text, problems)
    assert fix in problems.sorted()[0].fix


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("---\na: 1\n---\n", {"a": 1}),
        ("a: 1\n...\n---\n# nothing more\n", {"a": 1}),
        ("a:\t\n  b: 1 \t\r\n\t\n  c: 2\n", {"a": {"b": 1, "c": 2}}),
        (r'{"a": "\ud83c\udf89!", "b": "\\ud83c\\udf89"}', {"a": "🎉!", "b": r"\ud83c\udf89"}),
    ],
    ids=["empty document", "document of a comment", "tabs at line ends", "escapes of json"],
)
def test_what_other_readers_of_yaml_and_json_accept_is_read(text: str, value) -> None:
    assert plain_value(tree_of(text)) == value


def test_a_text_keeps_its_tabs_and_backslashes() -> None:
    assert plain_value(tree_of("a: |-\n  b\t\n  c\nd: '\\ud83c\\udf89'")) == {"a": "b\t\nc", "d": r"\ud83c\udf89"}
