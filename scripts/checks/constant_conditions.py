"""Check conditions whose result is constant, also those that are a variable alone: any text counts as true."""

from collections.abc import Sequence

import regex

from scripts.checks.arithmetic_checks import counted_answers
from scripts.checks.control_flow import Cell, ControlFlowGraph
from scripts.checks.definite_assignment import AnsweredCondition
from scripts.checks.effects import LoopBack, Read, Select, Write, effect_of
from scripts.expressions.condition_algebra import Unknown
from scripts.model.actions import Action, Ask, Repeat, outputs_of
from scripts.model.base import Expression, Template
from scripts.model.diagnostics import Problems
from scripts.model.script import Phase, Topic, nodes
from scripts.model.variables import Output

_COUNT = regex.compile(r"[0-9]{1,3}")
_ORDERS = regex.compile(r"[<>]")
_NO = frozenset({"no", "false", "nein", "non", "否", "不", "不是", "没有"})
_FIX = "Write `type: boolean` where the variable takes its value, or compare it: {name} == 'yes'."


def check_constants(layout: ControlFlowGraph, problems: Problems) -> None:
    """Add a problem for each condition that has the same result for all values of its variables.

    A `when` that is always false is allowed on a topic, because a `goto` may enter it.
    """
    for ids, node in nodes(layout.script):
        if isinstance(node, Phase | Topic) and node.when is not None and node.when.compiled.facts.value:
            _constant(node.when, problems, "/".join(ids))
    for point, action in layout.placed_actions():
        for condition in _conditions(action):
            _constant(condition, problems, layout.path(point), _fix_for(action, condition))


def _conditions(action: Action) -> list[Expression]:
    effect = effect_of(action)
    is_odd = action.when is not None and action.when.compiled.facts.value  # else, the action is unreachable
    found: list[Template | Expression | None] = [action.when] if is_odd else []
    found += [each.source for each in effect.steps if isinstance(each, Read) and each.is_condition]
    found += [each.when for each in effect.steps if isinstance(each, Write)]
    found += [effect.body.until] if isinstance(effect.body, LoopBack) else []
    conditions = [each for each in dict.fromkeys(found) if isinstance(each, Expression)]
    rules = {rule.unless for item in outputs_of(action) for output in item.questions for rule in output.validate}
    return [each for each in conditions if each not in rules or each.compiled.facts.value]  # else, unanswerable


def _fix_for(action: Action, condition: Expression) -> str:
    """Return what an author meant who wrote a number in place of a condition, or an empty text."""
    source = condition.source.strip()
    is_count = isinstance(action, Repeat) and _COUNT.fullmatch(source)
    return f"To run `do` {source} times, write `repeat: {{max: {source}}}`." if is_count else ""


def _constant(condition: Expression, problems: Problems, path: str, fix: str = "") -> None:
    value = condition.compiled.facts.value
    if isinstance(value, Unknown) or condition.source == "true":  # `true`, or `always` in an older format, is meant
        return
    if condition.source == "none":
        fix = "Write a condition after the key, such as `score > 3`."
        problems.add("CONDITION_CONSTANT", "an empty condition never holds", condition.at, path=path, fix=fix)
        return
    spelled = " ".join(condition.source.split())
    outcome = "always" if value else "never"
    if not value and _ORDERS.search(spelled):
        fix = fix or "No number is in this range: correct the numbers, or write `or` in place of `and`."
    problems.add("CONDITION_CONSTANT", f"`{spelled}` {outcome} holds", condition.at, path=path, fix=fix)


# -- answers ---------------------------------------------------------------------------------------------------------


def check_conditions(layout: ControlFlowGraph, problems: Problems, conditions: list[AnsweredCondition]) -> None:
    """Add a problem for each of these conditions whose variable is always a text."""
    if not conditions:
        return
    texts = _text_cells(layout)
    for each in conditions:
        if layout.cell(each.node, each.name) in texts:
            outcome = "never" if each.is_negated else "always"
            message = f"any text counts as true, also `no`: with an answer in `{each.name}` this {outcome} holds"
            fix = _FIX.format(name=each.name)
            problems.add("CONDITION_CONSTANT", message, each.at, path=layout.path(each.node), fix=fix)


def _text_cells(layout: ControlFlowGraph) -> set[Cell]:
    """Return the variables without an initial value into which only texts are written, none of them empty."""
    numbers = {(each.node, each.output.get) for each in counted_answers(layout)}
    is_text: dict[Cell, bool] = {}
    for node, action in layout.placed_actions():
        for name in {name for name, _ in effect_of(action, layout.script.forms).written}:
            declared = layout.sight(node).declaration(name)
            is_open = declared is None or (declared.kind in {None, "text", "choice"} and declared.value is None)
            fits = is_open and (node, name) not in numbers and _writes_text(action, name)
            cell = layout.cell(node, name)
            is_text[cell] = is_text.get(cell, True) and fits
    return {cell for cell, fits in is_text.items() if fits}


def _writes_text(action: Action, name: str) -> bool:
    """Return whether an action writes only texts to a variable, and if these are choices, one that means no."""
    outputs = [each for each in outputs_of(action) if isinstance(each, Output) and each.get == name]
    if outputs:
        return isinstance(action, Ask) and all(_is_text(each) for each in outputs)
    effect = effect_of(action)
    if isinstance(effect.body, Select) and effect.body.put.name == name:
        return _have_no([each.value for each in effect.body.options])
    writes = [step.value for step in effect.steps if isinstance(step, Write) and step.name == name]
    return bool(writes) and _have_no([value.compiled.facts.value if value is not None else None for value in writes])


def _is_text(output: Output) -> bool:
    """Return whether the answer is a text: by its type, or without one if no description lets a model infer it.

    A condition may ask whether one of several choices was made at all, so choices count only if one of them means no.
    """
    if output.default is not None or output.required is False or output.define:
        return False
    return output.kind in {None, "text"} or (output.kind == "choice" and _have_no(output.choices))


def _have_no(values: Sequence[object]) -> bool:
    texts = [value for value in values if isinstance(value, str) and value]
    return len(texts) == len(values) and any(text.casefold() in _NO for text in texts)
