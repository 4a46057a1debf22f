"""Questions that no answer can satisfy, conditions that never change, and choices that stand without a question."""

from datetime import date, timedelta

import regex

from scripts.actions import Action, arms, walk
from scripts.analysis.deeds import Again, Branch, Look, Pick, Put, deed_of, facts_in, questions_in
from scripts.analysis.layout import Layout
from scripts.analysis.sense import outputs_of
from scripts.conditions import Unknown
from scripts.diagnostics import Problems
from scripts.model import Phase, Topic
from scripts.nodes import Expression
from scripts.values import number_in
from scripts.variables import Output

PATTERN_S = 0.02  # for one match of an author's pattern, off the event loop
_DAYS = [(date(1990, 1, 1) + timedelta(days=n)).isoformat() for n in range(0, 20_000, 7)]  # a day of each week


def check_questions(layout: Layout, problems: Problems) -> None:
    """Adds a problem for each question, choice or condition that makes no sense by itself."""
    script = layout.script
    for phase in script.phases:
        _entry(phase, problems, phase.id)
        for topic in phase.topics:
            path = f"{phase.id}/{topic.id}"
            _entry(topic, problems, path)
            _actions(topic.actions, problems, path)
    for skill in script.skills:
        _actions(skill.actions, problems, skill.id)


def _actions(actions: tuple[Action, ...], problems: Problems, path: str) -> None:
    for action in walk(actions):
        for condition in _conditions(action):
            _constant(condition, problems, path)
        if action.when is not None and facts_in(action.when).value:
            _constant(action.when, problems, path)
        for output in (each for item in outputs_of(action) for each in questions_in(item)):
            _output(output, problems, path)
    _unasked(actions, problems, path, is_told=False)


def _entry(owner: Phase | Topic, problems: Problems, path: str) -> None:
    """A topic that is never entered in order is there for a `goto`; one that always is needs no `when`."""
    if owner.when is not None and facts_in(owner.when).value:
        _constant(owner.when, problems, path)


def _conditions(action: Action) -> list[Expression]:
    deed = deed_of(action)
    found = [
        step.source
        for step in deed.steps
        if isinstance(step, Look) and step.is_condition and isinstance(step.source, Expression)
    ]
    found += [step.when for step in deed.steps if isinstance(step, Put) and step.when is not None]
    match deed.body:
        case Branch() as branch:
            found.append(branch.condition)
        case Again() as again if again.until is not None:
            found.append(again.until)
        case _:
            pass
    false_here = {each.validate for item in outputs_of(action) for each in questions_in(item)}
    return [each for each in dict.fromkeys(found) if each not in false_here or facts_in(each).value]


def _constant(condition: Expression, problems: Problems, path: str) -> None:
    value = facts_in(condition).value
    if isinstance(value, Unknown):
        return
    spelled = " ".join(condition.source.split())
    outcome = "always" if value else "never"
    problems.add("CONDITION_CONSTANT", f"`{spelled}` {outcome} holds", condition.at, path=path)


# -- answers --------------------------------------------------------------------------------------------------------


def _output(output: Output, problems: Problems, path: str) -> None:
    reason = _no_validation(output) or _no_choice(output) or _no_size(output) or _no_date(output)
    if reason is not None:
        message, key = reason
        problems.add("QUESTION_UNANSWERABLE", f"`{output.get}`: {message}", output.mark(key), path=path)
    elif output.pattern is not None and output.kind in {"number", "boolean", "list", "record"}:
        message = f"`pattern` is for texts; `{output.get}` is a {output.kind}, which it does not look at"
        problems.add("KEY_IGNORED", message, output.mark("pattern"), path=path)


def _no_validation(output: Output) -> tuple[str, str] | None:
    if output.validate is None:
        return None
    value = facts_in(output.validate).value
    return None if isinstance(value, Unknown) or value else ("`validate` never holds", "validate")


def _no_choice(output: Output) -> tuple[str, str] | None:
    """Whether a rule for texts refuses every choice."""
    if output.kind != "choice" or not output.choices:
        return None
    if output.pattern is not None and not any(_matches(output.pattern, choice) for choice in output.choices):
        return "none of its choices matches the pattern", "pattern"
    low, high = _limits(output)
    if not any(low <= len(choice) <= high for choice in output.choices):
        key = "min" if output.min is not None else "max"
        return "none of its choices is as long as `min` and `max` want it", key
    return None


def _no_size(output: Output) -> tuple[str, str] | None:
    low, high = _limits(output)
    if output.kind == "boolean" and (low > 1 or high < 0):
        return "`min` and `max` leave neither yes nor no", "min" if low > 1 else "max"
    if output.kind in {None, "text"} and output.max is not None and high < 1:
        return "`max` counts the characters of a text, and leaves none", "max"
    return None


def _no_date(output: Output) -> tuple[str, str] | None:
    if output.kind != "date" or output.pattern is None:
        return None
    if any(_matches(output.pattern, day) for day in _DAYS):
        return None
    return "a date is kept as 2026-01-31, and the pattern fits none written so", "pattern"


def _limits(output: Output) -> tuple[float, float]:
    low, high = (number_in(limit) if isinstance(limit, str) else limit for limit in (output.min, output.max))
    return (float("-inf") if low is None else low), (float("inf") if high is None else high)


def _matches(pattern: str, text: str) -> bool:
    try:
        return regex.fullmatch(pattern, text, timeout=PATTERN_S, concurrent=True) is not None
    except TimeoutError:
        return True  # not to be told from here


# -- choices --------------------------------------------------------------------------------------------------------


def _unasked(actions: tuple[Action, ...], problems: Problems, path: str, *, is_told: bool) -> None:
    """A choice without a question, where nothing before it in its list, or around that, says what it is about."""
    for action in actions:
        deed = deed_of(action)
        is_offered = isinstance(deed.body, Pick) and deed.body.word == "choice"
        if is_offered and not deed.says and not is_told:
            message = "the choices are offered without a question, and nothing is said before them"
            problems.add("CHOICE_WITHOUT_QUESTION", message, action.at, path=path)
        inside = is_told or deed.says
        for inner in arms(action).values():
            _unasked(inner, problems, path, is_told=inside)
        is_told = inside or any(_says(inner) for inner in arms(action).values())


def _says(actions: tuple[Action, ...]) -> bool:
    return any(deed_of(action).says for action in walk(actions))
