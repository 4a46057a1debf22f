"""Check for answers in words that the runtime does not recognise in the language of the script without a model."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice

from msgspec import Struct

from scripts.expressions.values import DATES, DeclaredType
from scripts.model.actions import Action, AiAsk, Ask, Form, outputs_of
from scripts.model.base import Location
from scripts.model.diagnostics import Problems, Severity
from scripts.model.script import FormDefinition, FormField, Locale, Script, all_actions, all_declarations, as_output
from scripts.model.variables import Output
from scripts.translations.localisation import language, own_locale

ANSWERED_IN = frozenset({"de", "en", "es", "fr", "it", "nl", "pt", "zh"})
"""The languages whose words the runtime recognises without a model; in others it recognises digits and dates."""

LISTED_MAX = 20  # per language; more would hide the other problems

_UNREAD: Mapping[DeclaredType, tuple[Severity, str, str]] = {
    "boolean": (
        "warning",
        "yes and no",
        "Ask for a choice with the words for yes and no as choices, or run the script with a language model.",
    ),
    "number": ("note", "number words", "Ask for digits."),
    "date": ("note", "names of months", "Ask for digits, such as 2026-01-31."),
    "datetime": ("note", "names of months", "Ask for digits, such as 2026-01-31 09:30."),
}


class _Question(Struct, frozen=True):
    name: str
    kind: DeclaredType
    at: Location
    is_for_model: bool  # a model reads the answer, if the script runs with one


def check_answer_words(script: Script, problems: Problems) -> None:
    """Add a problem for each question whose answers cannot be recognised in a language of the script."""
    own = own_locale(script)
    tables = [each for each in script.strings if language(each.locale) != language(own)]
    for locale, at in ((own, None), *((table.locale, table.mark("strings")) for table in tables)):
        unread = (each for each in _questions(script) if not _is_read(each.kind, locale))
        for question in islice(unread, LISTED_MAX):
            severity, words, fix = _UNREAD[question.kind]
            message = f"`{question.name}`: in {locale}, {words} are recognised by language models only"
            milder = "note" if question.is_for_model else severity
            problems.add("ANSWER_WORDS_UNREAD", message, at or question.at, fix=fix, severity=milder)


def _is_read(kind: DeclaredType, locale: Locale) -> bool:
    """Return whether the runtime recognises answers of a type in a language."""
    code = language(locale)
    return code in ANSWERED_IN or kind not in _UNREAD or (kind in DATES and _has_months(code))


@lru_cache(maxsize=256)
def _has_months(code: str) -> bool:
    from babel.localedata import exists  # CLDR names of months; imported here because few scripts need them

    return bool(exists(code))


def _questions(script: Script) -> Iterator[_Question]:
    types = {each.var: each.kind for each in all_declarations(script)}
    sheets = {sheet.id: sheet for sheet in script.forms}
    for action in all_actions(script):
        is_for_model = isinstance(action, AiAsk)
        for output in _asked_outputs(action, sheets):
            kind = output.kind or types.get(output.get)
            if kind is not None:
                yield _Question(output.get, kind, output.at, is_for_model)


def _asked_outputs(action: Action, sheets: Mapping[str, FormDefinition]) -> Iterator[Output]:
    """Yield the outputs that an action extracts from the user's words."""
    if isinstance(action, Ask | AiAsk):
        for item in outputs_of(action):
            yield from item.questions
    elif isinstance(action, Form) and action.sheet in sheets:
        yield from _fields(sheets[action.sheet].fields)


def _fields(fields: tuple[FormField, ...]) -> Iterator[Output]:
    for field in fields:
        if field.columns:
            yield from _fields(field.columns)
        elif field.computed is None:
            yield as_output(field)
