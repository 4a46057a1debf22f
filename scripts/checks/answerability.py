"""Check for unanswerable questions, constant conditions, choices without a question, and answers in words."""

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from functools import lru_cache
from itertools import islice

import regex
from msgspec import Struct

from scripts.checks.control_flow import ControlFlowGraph
from scripts.checks.effects import Branch, LoopBack, Read, Select, Write, effect_of
from scripts.expressions.condition_algebra import Unknown
from scripts.expressions.values import DATES, DeclaredType, number_in
from scripts.model.actions import Action, AiAsk, Ask, Form, Repeat, arms, outputs_of, walk
from scripts.model.base import Expression, Location
from scripts.model.diagnostics import Problems, Severity
from scripts.model.script import (
    FormDefinition,
    FormField,
    Locale,
    Phase,
    Script,
    Topic,
    all_actions,
    all_declarations,
    as_output,
    nodes,
)
from scripts.model.variables import Output
from scripts.translations.localisation import language, own_locale

_COUNT = regex.compile(r"[0-9]{1,3}")
PATTERN_S = 0.02  # for one match of an author's pattern, outside the event loop
_DAYS = [(date(1990, 1, 1) + timedelta(days=n)).isoformat() for n in range(0, 20_000, 7)]  # one date per week


def check_questions(layout: ControlFlowGraph, problems: Problems) -> None:
    """Add a problem for each such question, choice or condition."""
    for path, node in nodes(layout.script):
        if isinstance(node, Phase | Topic):
            _entry(node, problems, "/".join(path))
    for point, body in layout.bodies():
        _actions(body.actions, problems, layout.path(point))


def _actions(actions: tuple[Action, ...], problems: Problems, path: str) -> None:
    for action in walk(actions):
        for condition in _conditions(action):
            _constant(condition, problems, path, _fix_for(action, condition))
        if action.when is not None and action.when.compiled.facts.value:
            _constant(action.when, problems, path)
        for output in (each for item in outputs_of(action) for each in item.questions):
            _output(output, problems, path)
    _unasked(actions, problems, path, is_said=False)


def _entry(owner: Phase | Topic, problems: Problems, path: str) -> None:
    """Allow a `when` that is always false on a topic, because a `goto` may enter it; report one that is always true."""
    if owner.when is not None and owner.when.compiled.facts.value:
        _constant(owner.when, problems, path)


def _conditions(action: Action) -> list[Expression]:
    effect = effect_of(action)
    found = [
        step.source
        for step in effect.steps
        if isinstance(step, Read) and step.is_condition and isinstance(step.source, Expression)
    ]
    found += [step.when for step in effect.steps if isinstance(step, Write) and step.when is not None]
    match effect.body:
        case Branch() as branch:
            found.append(branch.condition)
        case LoopBack() as again if again.until is not None:
            found.append(again.until)
        case _:
            pass
    outputs = [output for item in outputs_of(action) for output in item.questions]
    false_here = {each.unless for output in outputs for each in output.validate}
    return [each for each in dict.fromkeys(found) if each not in false_here or each.compiled.facts.value]


def _fix_for(action: Action, condition: Expression) -> str:
    """Return what an author meant who wrote a number in place of a condition, or an empty text."""
    source = condition.source.strip()
    return (
        f"To run `do` {source} times, write `repeat: {{max: {source}}}`."
        if _COUNT.fullmatch(source) and isinstance(action, Repeat)
        else ""
    )


def _constant(condition: Expression, problems: Problems, path: str, fix: str = "") -> None:
    value = condition.compiled.facts.value
    if isinstance(value, Unknown) or condition.source == "true":  # `true`, or `always` in an older format, is meant
        return
    spelled = " ".join(condition.source.split())
    outcome = "always" if value else "never"
    problems.add("CONDITION_CONSTANT", f"`{spelled}` {outcome} holds", condition.at, path=path, fix=fix)


# -- answers --------------------------------------------------------------------------------------------------------


def _output(output: Output, problems: Problems, path: str) -> None:
    reason = _no_validation(output) or _no_choice(output) or _no_size(output) or _no_date(output)
    if reason is not None:
        message, key = reason
        problems.add("QUESTION_UNANSWERABLE", f"`{output.get}`: {message}", output.mark(key), path=path)
    elif output.pattern is not None and output.kind in {"number", "boolean", "list", "record", "timezone"}:
        message = f"`pattern` applies to texts only; `{output.get}` is a {output.kind}"
        problems.add("KEY_IGNORED", message, output.mark("pattern"), path=path)


def _no_validation(output: Output) -> tuple[str, str] | None:
    values = (each.unless.compiled.facts.value for each in output.validate)
    is_never_true = any(not isinstance(value, Unknown) and not value for value in values)
    return ("`validate` is never true", "validate") if is_never_true else None


def _no_choice(output: Output) -> tuple[str, str] | None:
    """Report a rule for texts that rejects every choice."""
    if output.kind != "choice" or not output.choices:
        return None
    if output.pattern is not None and not any(_matches(output.pattern, choice) for choice in output.choices):
        return "no choice matches `pattern`", "pattern"
    low, high = _limits(output)
    if not any(low <= len(choice) <= high for choice in output.choices):
        key = "min" if output.min is not None else "max"
        return "no choice has a length between `min` and `max`", key
    return None


def _no_size(output: Output) -> tuple[str, str] | None:
    low, high = _limits(output)
    if output.kind == "boolean" and (low > 1 or high < 0):
        return "`min` and `max` exclude both yes and no", "min" if low > 1 else "max"
    if output.kind in {None, "text"} and output.max is not None and high < 1:
        return "`max` is the maximum length of a text and allows no character", "max"
    return None


def _no_date(output: Output) -> tuple[str, str] | None:
    if output.kind != "date" or output.pattern is None:
        return None
    if any(_matches(output.pattern, day) for day in _DAYS):
        return None
    return "a date is stored as 2026-01-31, and `pattern` matches no such date", "pattern"


def _limits(output: Output) -> tuple[float, float]:
    low, high = (number_in(limit) if isinstance(limit, str) else limit for limit in output.limits)
    return (float("-inf") if low is None else low), (float("inf") if high is None else high)


def _matches(pattern: str, text: str) -> bool:
    try:
        return regex.fullmatch(pattern, text, timeout=PATTERN_S, concurrent=True) is not None
    except TimeoutError:
        return True  # cannot be determined here


# -- choices --------------------------------------------------------------------------------------------------------


def _unasked(actions: tuple[Action, ...], problems: Problems, path: str, *, is_said: bool) -> None:
    """Report choices without a question and without a preceding message in their list or in an outer list."""
    for action in actions:
        effect = effect_of(action)
        is_offered = isinstance(effect.body, Select) and effect.body.word == "choice"
        if is_offered and not effect.says and not is_said:
            message = "choices without a question and without a message before them"
            problems.add("CHOICE_WITHOUT_QUESTION", message, action.at, path=path)
        inside = is_said or effect.says
        for inner in arms(action).values():
            _unasked(inner, problems, path, is_said=inside)
        is_said = inside or any(_says(inner) for inner in arms(action).values())


def _says(actions: tuple[Action, ...]) -> bool:
    return any(effect_of(action).says for action in walk(actions))


# -- answers in words ------------------------------------------------------------------------------------------------


ANSWERED_IN = frozenset({"de", "en", "es", "fr", "it", "nl", "pt", "zh"})
"""The languages whose words the runtime recognises without a model; in others it recognises digits and dates."""

LISTED_MAX = 20  # per script; more would hide the other problems

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
    for question in islice(_unread(script, own), LISTED_MAX):
        severity, words, fix = _UNREAD[question.kind]
        message = f"`{question.name}`: in {own}, {words} are recognised by language models only"
        milder = "note" if question.is_for_model else severity
        problems.add("ANSWER_WORDS_UNREAD", message, question.at, fix=fix, severity=milder)
    for table in script.strings:
        if language(table.locale) == language(own):
            continue
        for kind, (severity, words, fix) in _UNREAD.items():
            found = [each for each in _unread(script, table.locale) if each.kind == kind]
            if found:
                more = f" and {len(found) - 1} more" if len(found) > 1 else ""
                message = f"`{found[0].name}`{more}: in {table.locale}, {words} are recognised by language models only"
                milder = "note" if all(each.is_for_model for each in found) else severity
                problems.add("ANSWER_WORDS_UNREAD", message, table.mark("strings"), fix=fix, severity=milder)


def _unread(script: Script, locale: Locale) -> Iterator[_Question]:
    """Return the questions of a script whose answers cannot be recognised in a language."""
    if language(locale) in ANSWERED_IN:
        return
    for question in _questions(script):
        if question.kind in _UNREAD and not (question.kind in DATES and _has_months(language(locale))):
            yield question


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
    """Return the outputs that an action extracts from the user's words."""
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
