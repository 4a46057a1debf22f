"""Questions whose answers cannot be read in the words of a language: yes and no, numbers, names of months."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice

from msgspec import Struct

from scripts.actions import Action, AiAsk, Ask, Form
from scripts.analysis.deeds import questions_in
from scripts.analysis.sense import outputs_of
from scripts.diagnostics import Problems, Severity
from scripts.form_sheets import as_output
from scripts.model import FormField, FormSheet, Locale, Script, all_actions, all_declarations
from scripts.nodes import Location
from scripts.strings import language, own_locale
from scripts.values import DeclaredType
from scripts.variables import Output

ANSWERED_IN = frozenset({"de", "en", "es", "fr", "it", "nl", "pt", "zh"})
"""The languages in whose words the runtime reads answers by itself; of others it reads digits and dates."""

LISTED_MAX = 20  # questions of one script; more would bury the other problems

_UNREAD: Mapping[DeclaredType, tuple[Severity, str, str]] = {
    "boolean": (
        "warning",
        "yes and no",
        "Ask for a choice, with the words for yes and no as its choices, or run the script with a language model.",
    ),
    "number": ("note", "number words", "Ask for digits."),
    "date": ("note", "names of months", "Ask for digits, such as 2026-01-31."),
}


class _Question(Struct, frozen=True):
    name: str
    kind: DeclaredType
    at: Location
    is_for_model: bool  # a model reads the answer, where the script is run with one


def check_answer_words(script: Script, problems: Problems) -> None:
    """Adds a problem for each question whose answers cannot be read in the script's own language, or a table's."""
    own = own_locale(script)
    for question in islice(_unread(script, own), LISTED_MAX):
        severity, words, fix = _UNREAD[question.kind]
        message = f"`{question.name}`: in {own}, {words} are read by language models only"
        milder = "note" if question.is_for_model else severity
        problems.add("ANSWER_WORDS_UNREAD", message, question.at, fix=fix, severity=milder)
    for table in script.strings:
        if language(table.locale) == language(own):
            continue
        for kind, (severity, words, fix) in _UNREAD.items():
            found = [each for each in _unread(script, table.locale) if each.kind == kind]
            if found:
                more = f" and {len(found) - 1} more" if len(found) > 1 else ""
                message = f"`{found[0].name}`{more}: in {table.locale}, {words} are read by language models only"
                milder = "note" if all(each.is_for_model for each in found) else severity
                problems.add("ANSWER_WORDS_UNREAD", message, table.mark("strings"), fix=fix, severity=milder)


def _unread(script: Script, locale: Locale) -> Iterator[_Question]:
    """The questions of a script whose answers cannot be read in the words of a language."""
    if language(locale) in ANSWERED_IN:
        return
    for question in _questions(script):
        if question.kind in _UNREAD and not (question.kind == "date" and _has_months(language(locale))):
            yield question


@lru_cache(maxsize=256)
def _has_months(code: str) -> bool:
    from babel.localedata import exists  # CLDR, which the runtime reads dates by; few scripts need it here

    return bool(exists(code))


def _questions(script: Script) -> Iterator[_Question]:
    types = {each.var: each.kind for each in all_declarations(script)}
    sheets = {sheet.id: sheet for sheet in script.forms}
    for action in all_actions(script):
        is_for_model = isinstance(action, AiAsk)
        for output in _outputs(action, sheets):
            kind = output.kind or types.get(output.get)
            if kind is not None:
                yield _Question(output.get, kind, output.at, is_for_model)


def _outputs(action: Action, sheets: Mapping[str, FormSheet]) -> Iterator[Output]:
    """What an action takes from the user's words."""
    if isinstance(action, Ask | AiAsk):
        for item in outputs_of(action):
            yield from questions_in(item)
    elif isinstance(action, Form) and action.sheet in sheets:
        yield from _fields(sheets[action.sheet].fields)


def _fields(fields: tuple[FormField, ...]) -> Iterator[Output]:
    for field in fields:
        if field.columns:
            yield from _fields(field.columns)
        elif field.computed is None:
            yield as_output(field)
