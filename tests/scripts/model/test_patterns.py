"""Patterns are refused before they cost memory; those that people write are not."""

import pytest

from scripts.model.json_schemas import SchemaInvalid, check_schema
from scripts.model.patterns import PatternInvalid, check_pattern

HUGE = [
    "a{100000000}",
    "a{99999999999999999999}",
    "(((a{30}){30}){30}){30}",
    "(?:[ab]{1000}){1000,}",
    "([^]]{1000}){1000}",
    r"\){9999999}",
    "(a{1000})(?#aside){1000}",
    "(?x)(a{1000}) # aside\n {1000}",
    "(?x)[#]a{100000000}",
]


@pytest.mark.parametrize("pattern", HUGE)
def test_a_pattern_that_needs_much_memory_is_refused(pattern: str) -> None:
    with pytest.raises(PatternInvalid, match="written out"):
        check_pattern(pattern)
    with pytest.raises(SchemaInvalid, match="written out"):
        check_schema({"type": "string", "pattern": pattern})


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(" * 1_500 + ")" * 1_500, "nested too deeply"),
        ("a)", r"`\)` at character 2 has no `\(`"),
        ("(?x)(?-x:#((a{1000}){1000}))", "only at the beginning"),
        ("a(?x: b)", "only at the beginning"),
    ],
)
def test_another_invalid_pattern_is_refused_with_its_reason(pattern: str, reason: str) -> None:
    with pytest.raises(PatternInvalid, match=reason):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "message", "fix"),
    [
        ("x([0-9", "`[` at character 3 has no `]`", "`[0-9]`"),
        (r"[(]\((a|b", "`(` at character 6 has no `)`", r"`\(`"),
        ("a(b)c)", "`)` at character 6 has no `(`", r"`\)`"),
        ("+49[0-9]*", "`+` at character 1 has nothing to repeat", r"`\+`"),
        ("ja*?*", "`*` at character 5 repeats a repetition", "Remove it"),
        ("[0-9]{5,3}", "the first number in the braces at character 7 is greater", "`[0-9]{3,5}`"),
        ("[z-a]", "the range before character 5 ends before it begins", "`[a-z]`"),
        ("a\\", r"`\` at the end has nothing after it", r"`\\`"),
        (r"\p{Foo}", "unknown property at character 7", "`[0-9]{5}`"),
    ],
)
def test_pattern_error_has_its_position_and_a_right_example(pattern: str, message: str, fix: str) -> None:
    with pytest.raises(PatternInvalid) as refused:
        check_pattern(pattern)
    assert message in str(refused.value)
    assert fix in refused.value.fix


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d{4}-\d{2}-\d{2}",
        r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        r"(?:\+49|0)[1-9]\d{3,20} #\{[x]",
        r"(?x) [0-9]{4} # year",
        r"(?P<first>\w{1,1000000}) (?P<last>.{0,1000000})",
        ".{10000}",
    ],
)
def test_a_usual_pattern_is_valid(pattern: str) -> None:
    check_pattern(pattern)
