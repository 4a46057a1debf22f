"""Check for questions that no answer satisfies, and for choices without a question."""

from datetime import date, timedelta

import regex

from scripts.checks.control_flow import ControlFlowGraph
from scripts.expressions.condition_algebra import Unknown
from scripts.expressions.values import number_in
from scripts.model import actions
from scripts.model.actions import Action, arms, outputs_of, walk
from scripts.model.diagnostics import Problems
from scripts.model.variables import Output

_SAID = (
    actions.Say | actions.AiSay | actions.Show | actions.Ask | actions.AiAsk
    | actions.Chat | actions.Form | actions.OwnAction
)  # fmt: skip
PATTERN_S = 0.02  # for one match of an author's pattern, outside the event loop
_DAYS = [(date(1990, 1, 1) + timedelta(days=n)).isoformat() for n in range(0, 20_000, 7)]  # one date per week


def check_questions(layout: ControlFlowGraph, problems: Problems) -> None:
    """Add a problem for each question that no answer satisfies, and for each choice without a question."""
    for node, body in layout.bodies():
        path = layout.path(node)
        items = (item for action in layout.actions(node) for item in outputs_of(action))
        for output in (each for item in items for each in item.questions):
            reason = _no_validation(output) or _no_choice(output) or _no_size(output) or _no_date(output)
            if reason is not None:
                message, key = reason
                problems.add("QUESTION_UNANSWERABLE", f"`{output.get}`: {message}", output.mark(key), path=path)
        _check_unasked(body.actions, problems, path, is_said=False)


# -- answers --------------------------------------------------------------------------------------------------------


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


def _check_unasked(listed: tuple[Action, ...], problems: Problems, path: str, *, is_said: bool) -> None:
    """Report choices without a question and without a preceding message in their list or in an outer list."""
    for action in listed:
        if isinstance(action, actions.Choose) and not _says(action) and not is_said:
            message = "choices without a question and without a message before them"
            problems.add("CHOICE_WITHOUT_QUESTION", message, action.at, path=path)
        for inner in arms(action).values():
            _check_unasked(inner, problems, path, is_said=is_said or _says(action))
        is_said = is_said or any(_says(each) for each in walk((action,)))


def _says(action: Action) -> bool:
    match action:
        case actions.Choose():
            return action.question is not None
        case actions.CallTool():
            return action.on_fail is not None and action.on_fail.say is not None
        case _:
            return isinstance(action, _SAID)
