"""The outputs of questions as they are now: with the types of their variables, and computed limits and defaults."""

from collections.abc import Mapping

import msgspec

from runtime.actions.choose import CHOICES_MAX
from runtime.answers.reply_values import AnswerRefused, check_value
from runtime.turn.context import ActionFailed, TurnContext
from scripts.expressions.values import Value, ValueRefused, coerce, is_given, shorten
from scripts.model.actions import AiAsk, AiThink, Ask
from scripts.model.base import Expression
from scripts.model.variables import Limit, Output, OutputItem, Records


def outputs_of(run: TurnContext, action: Ask | AiAsk | AiThink) -> tuple[OutputItem, ...]:
    """Return the outputs of an action, each with its own type or else its variable's declared type.

    Limits and defaults that are expressions have their present values. Raises ActionFailed.
    """
    place = (*run.home(), action.id)
    known = run.program.typed_outputs.get(place)
    if known is None:
        known = tuple(with_declared_type(run, item) if isinstance(item, Output) else item for item in action.outputs)
        run.program.typed_outputs[place] = known
        if any(output.expressions for item in known for output in item.questions):
            run.program.computed_outputs.add(place)
    if place not in run.program.computed_outputs:
        return known
    now = run.computed_outputs.get(place)
    if now is None:
        now = run.computed_outputs[place] = tuple(_evaluate(run, item) for item in known)
    return now


def expected_outputs(run: TurnContext, action: Ask | AiAsk | AiThink) -> tuple[Output, ...]:
    """Return the outputs that come from the conversation.

    The fields of records are included in every round: a further reply may give a further record.
    """
    return tuple(output for item in outputs_of(run, action) for output in item.questions)


def with_declared_type(run: TurnContext, output: Output) -> Output:
    """Return an output with its own type, or else with the declared type of its variable."""
    if output.type is not None or output.choice_list:
        return output
    declared = run.scopes.declaration(run.scopes.target(output.get), output.get)
    if declared is None or (declared.type is None and not declared.choices):
        is_counted = output.fallback != "raw" and run.program.is_counted(run.home(), output.get)
        return msgspec.structs.replace(output, type="number") if is_counted else output
    labels = output.labels or declared.labels
    return msgspec.structs.replace(output, type=declared.type, choice_list=declared.choices, labels=labels)


def _evaluate(run: TurnContext, item: OutputItem) -> OutputItem:
    match item:
        case Output():
            return with_values(run, item)
        case Records():
            return msgspec.structs.replace(item, fields=tuple(with_values(run, field) for field in item.fields))
        case _:
            return item


def with_values(run: TurnContext, output: Output) -> Output:
    """Return an output with the present values of its limits and its default. Raises ActionFailed for the default."""
    if isinstance(output.default, Expression):
        output = msgspec.structs.replace(output, default=run.value(output.default))
    return with_limits(run, output)


def with_limits(run: TurnContext, output: Output) -> Output:
    """Return an output with the present values of its limits and choices; without choices, its value is open."""
    if not output.expressions:
        return output
    choices = present_choices(run, output.choice_list)
    return msgspec.structs.replace(
        output,
        type=output.type if choices or output.type != "choice" else None,
        choice_list=choices,
        min=_limit(run, output, output.min),
        max=_limit(run, output, output.max),
    )


def present_choices(run: TurnContext, choices: tuple[str, ...] | Expression) -> tuple[str, ...]:
    """Return the present choices of a value; an expression that gives no list of texts gives none, with a warning."""
    if not isinstance(choices, Expression):
        return choices
    try:
        found = run.value(choices)
    except ActionFailed as problem:
        run.warn("expression_failed", str(problem))
        return ()
    texts = [each for each in found if isinstance(each, str) and is_given(each)] if isinstance(found, list) else []
    if not texts or texts != found:
        message = f"`choices` needs a list of texts, found {shorten(found)}; any value is accepted"
        run.warn("expression_failed", f"line {choices.at.line}: {message}")
        return ()
    return tuple(dict.fromkeys(texts))[:CHOICES_MAX]


def _limit(run: TurnContext, output: Output, limit: Limit | Expression) -> Limit:
    """Return the value of a limit; one that cannot be computed, or has another type, is none, with a warning."""
    if not isinstance(limit, Expression):
        return limit
    try:
        found = coerce(run.value(limit), output.limited_type)
    except (ActionFailed, ValueRefused) as problem:
        run.warn("expression_failed", f"line {limit.at.line}: {problem}")
        return None
    return found if isinstance(found, int | float | str) and is_given(found) else None


def check_together(
    run: TurnContext, outputs: tuple[Output, ...], values: Mapping[str, object]
) -> dict[str, Value | AnswerRefused]:
    """Return the values as their outputs require them, None for empty ones, or why they are refused.

    A `validate` reads all values of the reply and the known ones; one that reads an output without a value is not
    evaluated yet.
    """
    if not any(output.validate for output in outputs):
        return {output.get: check_value(output, values.get(output.get), {}, run.holds) for output in outputs}
    unvalidated = (msgspec.structs.replace(output, validate=()) for output in outputs)
    read = {output.get: check_value(output, values.get(output.get), {}, run.holds) for output in unvalidated}
    typed = {name: each.value if isinstance(each, AnswerRefused) else each for name, each in read.items()}
    together = {**run.progress.values, **{name: value for name, value in typed.items() if is_given(value)}}
    still_open = {output.get for output in outputs} - together.keys()
    found: dict[str, Value | AnswerRefused] = {}
    for output in outputs:
        due = tuple(each for each in output.validate if not still_open & each.unless.compiled.reads)
        now = msgspec.structs.replace(output, validate=due)
        found[output.get] = check_value(now, values.get(output.get), together, run.holds)
    return found
