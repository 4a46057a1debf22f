"""Patterns that take too long to reject a text are found; those that people write every day are not."""

import time

import pytest
import regex

from scripts.checks.output_checks import slow_text

SLOW = {  # by pattern, a text that the matcher tries in too many ways
    r"(a|aa)+$": "a" * 60 + "!",
    r"(ab|[a-z]b)*$": "ab" * 40 + "!",
    r"(?i)([a-f]|[A-F]|D)+$": "d" * 60 + "!",
    r"(red|redred)+x": "red" * 40 + "x!",
    r"(\p{Han}|[\u4e00-\u9fff])+x": "中" * 60 + "x!",
    r"(a{1,5}b?){1,20}c": "a" * 60 + "c!",
    r"(\d{1,4} ?){2,20}": "1" * 60 + "!",
    r"(a{2}|a{3})*b": "a" * 60 + "b!",
    r"id-(a|aa)+$": "id-" + "a" * 60 + "!",
    r"(?:\+49|0)(\d|\d\d)+$": "+49" + "1" * 60 + "!",
    r"(?=(a|aa)+b)a": "a" * 60 + "!b",
}

GUARDED = [  # ambiguous, but the matcher notes where a repetition has failed
    r"(a+)+$",
    r"(a*)*b",
    r"(\w+\s?)*\.",
    r"(x+x+)+y",
    r"(\s*\w+\s*)+$",
    r"([a-zA-Z0-9._-]+)*@",
    r"([\w.]+\.?)+@x",
    r"(?:\p{Han}+)+x",
    r"(?>(a+)+b)c",
    r"(?=(a+)+b)a",
    r"(.*,)*x",
    r"(a?b?)*c",
]

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


@pytest.mark.parametrize("pattern", SLOW)
def test_a_text_that_takes_too_long_is_found(pattern: str) -> None:
    assert slow_text(pattern)
    with pytest.raises(TimeoutError):
        regex.fullmatch(pattern, SLOW[pattern], timeout=0.1)


@pytest.mark.parametrize("pattern", [*PLAIN, *GUARDED])
def test_fast_patterns_have_no_warning(pattern: str) -> None:
    assert slow_text(pattern) is None
    for text in ("a" * 400, "ab " * 130 + "!", "1," * 200 + "x", "中文" * 200, "a.b-c@" * 60, "x" * 64 + "!"):
        regex.fullmatch(pattern, text, timeout=5.0)


@pytest.mark.parametrize("pattern", [r"(a)\1+", r"(?:foo){e<=2}", r"\N{BULLET}+", "", "\x00+"])
def test_other_features_of_the_matcher_are_tried_as_well(pattern: str) -> None:
    assert slow_text(pattern) is None


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
    slow_text(pattern)
    assert time.process_time() - began < 2
