"""Patterns whose repetitions can read a text in two ways are found; those that people write every day are not."""

import re
import time

import pytest
import regex

from scripts.checks.backtracking import ambiguous_part

AMBIGUOUS = {  # by pattern, a text that a matcher may try in too many ways
    r"(a+)+$": "a" * 60 + "!",
    r"(a|aa)+$": "a" * 60 + "!",
    r"(a*)*b": "a" * 60,
    r"(\w+\s?)*\.": "word " * 20,
    r"(x+x+)+y": "x" * 60,
    r"(\s*\w+\s*)+$": "a" * 60 + "!",
    r"([a-zA-Z0-9._-]+)*@": "a" * 60,
    r"([\w.]+\.?)+@x": "a." * 30,
    r"(?:\p{Han}+)+x": "中" * 60,
    r"((a{1,20})+)$": "a" * 60 + "!",
    r"(ab|[a-z]b)*$": "ab" * 40 + "!",
    r"(?>(a+)+b)c": "a" * 60,
    r"(?=(a+)+b)a": "a" * 60,
    r"(?i)([a-f]|[A-F]|D)+$": "d" * 60 + "!",
    r"(.*,)*x": "," * 60,
    r"(a?b?)*c": "ab" * 30,
}

PLAIN = [
    r"\d{3}-\d{4}",
    r"[A-Z]\w+",
    r"(\d+,)*\d+",
    r"(\w+\s)+",
    r"[^@\s]+@[^@\s]+\.[a-z]+",
    r"[\w.+-]+@[\w-]+\.[\w.]+",
    r"\p{Han}{2,4}",
    r"[\u4e00-\u9fff]{2,}(省|市)?",
    r"1[3-9]\d{9}",
    r"\d{1,3}(,\d{3})*(\.\d+)?",
    r"(?:[a-z]+-)*[a-z]+",
    r"\w+(\s\w+)*",
    r"(ab?)*",
    r"(a+b)*",
    r"(?>a+)+$",
    r"(a++)+$",
    r".*x.*",
    r"([01]?\d|2[0-3]):[0-5]\d",
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
    r"(red|green|blue)(, (red|green|blue))*",
    r"(x{1,64},)*",
    r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}",
]


@pytest.mark.parametrize("pattern", AMBIGUOUS)
def test_two_readings_are_found(pattern: str) -> None:
    assert ambiguous_part(pattern)


@pytest.mark.parametrize("pattern", PLAIN)
def test_plain_patterns_have_one_reading(pattern: str) -> None:
    assert ambiguous_part(pattern) is None


@pytest.mark.parametrize("pattern", [r"(a|aa)+$", r"(ab|[a-z]b)*$", r"(?i)([a-f]|[A-F]|D)+$"])
def test_the_matcher_never_ends_with_some_of_them(pattern: str) -> None:
    with pytest.raises(TimeoutError):
        regex.search(pattern, AMBIGUOUS[pattern], timeout=0.1)


@pytest.mark.parametrize("pattern", PLAIN)
def test_plain_patterns_are_fast_whatever_they_meet(pattern: str) -> None:
    for text in ("a" * 400, "ab " * 130 + "!", "1," * 200 + "x", "中文" * 200, "a.b-c@" * 60, "x" * 64 + "!"):
        regex.fullmatch(pattern, text, timeout=5.0)


@pytest.mark.parametrize("pattern", ["(", r"(a)\1+", "[a", r"(?R)?", r"(?:foo){e<=2}", "a{2,1}", r"\N{BULLET}+", ""])
def test_what_cannot_be_looked_at_has_no_warning(pattern: str) -> None:
    assert ambiguous_part(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        ".*" * 78 + "x",
        "(?:" + ".?" * 39 + "x)*",
        "(?:" + "|".join(f"\\w{each}" for each in "abcdefghijklmnop" * 2) + ")*",
    ],
)
def test_a_hostile_pattern_is_looked_at_in_bounded_time(pattern: str) -> None:
    began = time.process_time()
    ambiguous_part(pattern)
    assert time.process_time() - began < 10
    assert re.compile(pattern)
