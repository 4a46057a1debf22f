"""The project and its tests use the field's words: no home-made word in names, docstrings, comments, messages, docs."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PACKAGES = ("api", "cuebook", "runtime", "scripts", "store")
PAGES = ("docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")

BANNED = {
    "anew": "again",
    "bell": "signal",
    "bringing": "refresh, import",
    "brought": "loaded, added, refreshed",
    "crowd": "clients",
    "deed": "effect",
    "house": "memory system",
    "kept": "stored, retained, preserved",
    "mend": "fix, repair",
    "mended": "fixed, repaired",
    "mends": "fixes, repairs",
    "purse": "budget",
    "seat": "subscription",
    "stretch": "range, batch",
    "stretches": "ranges, batches",
    "taken back": "retracted, reset",
    "the record": "the database",
    "told": "informed, sent, said",
    "twin": "duplicate",
    "whoever": "the user, the client",
}
"""Word, and what to write instead."""

RECORD = {"the record"}  # the type of a value in scripts, not the database
ALLOWED: dict[str, set[str]] = {
    "CHANGELOG.md": {"told"},  # the former name of a trust level
    "docs/reference/diagnostics.md": {"seat"},  # said in an example
    "runtime/context/messages.py": RECORD,
    "runtime/prompts/reply_fields.py": RECORD,
    "scripts/model/variables.py": RECORD,
}
"""By the path of a file, the words that it may use."""

WORD = re.compile(
    r"(?<![\w-])(" + "|".join(sorted(map(re.escape, BANNED), key=len, reverse=True)) + r")(?![\w-])", re.I
)
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
PARTICIPLES = {"begun", "bound", "broken", "chosen", "done", "drawn", "found", "given", "gone", "happened", "held"}
PARTICIPLES |= {"hidden", "known", "left", "lost", "made", "meant", "said", "seen", "sent", "shown", "spoken", "taken"}
PARTICIPLES |= {"unset", "written"}
VERBS = {"embed", "exceed", "feed", "need", "proceed", "reembed", "seed", "shed", "sorted", "succeed"}
"""Words in -ed that are no participles, or that Python itself uses so."""
AROUND = {"after", "again", "as", "at", "before", "by", "first", "in", "into", "of", "off", "on", "open", "out", "over"}
AROUND |= {"to", "up", "with"}
"""Words that make no noun of a participle."""
TEST_NAME = re.compile(r"\bdef (test_\w+)")
ANYWHERE = re.compile("|".join(map(re.escape, BANNED)), re.I)
"""Files without a match need no tokens, which take most of the time."""


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def pages() -> list[Path]:
    found = [ROOT / name for name in PAGES]
    return sorted(path for each in found for path in (each.rglob("*.md") if each.is_dir() else [each]))


def banned_in_code(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and word for every banned word in names, texts and comments."""
    if ANYWHERE.search(text):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            yield from banned_in_token(token)


def banned_in_token(token: tokenize.TokenInfo) -> Iterator[tuple[int, str]]:
    """Yield line and word for every banned word in a name, a text or a comment."""
    if token.type == tokenize.NAME:
        parts = {part.lower() for part in PART.findall(token.string)}
        yield from ((token.start[0], word) for word in parts & BANNED.keys())
    elif token.type in {tokenize.STRING, tokenize.COMMENT}:
        yield from banned_in_text(token.string, token.start[0])


def banned_in_tests(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and word for every banned word in names, docstrings and comments; other strings are data of tests."""
    if not ANYWHERE.search(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.STRING:
            yield from banned_in_token(token)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from banned_in_text(node.value.value, node.lineno)


def banned_in_text(text: str, first: int = 1) -> Iterator[tuple[int, str]]:
    """Yield line and word for every banned word in prose."""
    for match in WORD.finditer(text):
        yield first + text.count("\n", 0, match.start()), match.group().lower()


def named_by_participles(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of functions with neither verb nor noun: `shown`, `given_up`. A property may be a state."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not any(map(is_property, node.decorator_list)):
            words = [each.lower() for each in PART.findall(node.name)]
            if words and is_participle(words[0]) and all(is_participle(each) or each in AROUND for each in words):
                yield node.lineno, node.name


def is_participle(word: str) -> bool:
    return word in PARTICIPLES or (word.endswith("ed") and word not in VERBS)


def is_property(decorator: ast.expr) -> bool:
    return "property" in ast.unparse(decorator) or ast.unparse(decorator).endswith(".setter")


def report(path: Path, found: Iterator[tuple[int, str]]) -> list[str]:
    name = str(path.relative_to(ROOT))
    allowed = ALLOWED.get(name, set())
    return [f"{name}:{line}: {word} (write: {BANNED[word]})" for line, word in found if word not in allowed]


@pytest.mark.parametrize("package", PACKAGES)
def test_code_has_no_banned_word(package: str) -> None:
    files = [path for path in modules() if path.is_relative_to(ROOT / package)]
    assert files
    assert [line for path in files for line in report(path, banned_in_code(path.read_text()))] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_are_named_by_what_they_do(package: str) -> None:
    files = [path for path in modules() if path.is_relative_to(ROOT / package)]
    found = {path: list(named_by_participles(ast.parse(path.read_text()))) for path in files}
    assert {str(path.relative_to(ROOT)): names for path, names in found.items() if names} == {}


def test_tests_have_no_banned_word() -> None:
    folder = ROOT / "tests"
    files = [path for path in sorted(folder.rglob("*.py")) if not path.is_relative_to(folder / "benchmarks")]
    files.remove(Path(__file__))
    assert len(files) > 250
    assert [line for path in files for line in report(path, banned_in_tests(path.read_text()))] == []


def test_names_of_tests_have_at_most_60_characters() -> None:
    names = [name for path in (ROOT / "tests").rglob("*.py") for name in TEST_NAME.findall(path.read_text())]
    assert len(names) > 4_000
    assert [name for name in names if len(name) > 60] == []


def test_pages_have_no_banned_word() -> None:
    assert len(pages()) > 100
    assert [line for path in pages() for line in report(path, banned_in_text(path.read_text()))] == []


def test_the_check_finds_words_in_names_texts_and_comments() -> None:
    source = 'class TurnPurse:\n    kept_rows = "nothing brought"  # whoever asks\n'
    assert sorted(banned_in_code(source)) == [(1, "purse"), (2, "brought"), (2, "kept"), (2, "whoever")]
    functions = "def shown(): ...\ndef given_up(): ...\ndef show(): ...\ndef known_names(): ...\n"
    functions += "class Job:\n    @property\n    def done(self): ...\n"
    assert list(named_by_participles(ast.parse(functions))) == [(1, "shown"), (2, "given_up")]
    assert list(banned_in_text("a\nThe Record is mended")) == [(2, "the record"), (2, "mended")]
    assert list(banned_in_tests('"""A crowd."""\nsaid = "told"  # brought\n')) == [(2, "brought"), (1, "crowd")]
