"""Capture of `auto` variables: their values are read from every user message, whatever question is open."""

from runtime.answers.reply_values import AnswerRefused, check_value, read_labelled
from runtime.state.ports import ModelFailed
from runtime.turn.calls import BudgetExceeded
from runtime.turn.context import TurnContext
from runtime.turn.model_requests import complete
from scripts.expressions.expressions import Evaluation
from scripts.expressions.values import is_given
from scripts.model.actions import Action, AiAsk, Ask, Choose, Form
from scripts.model.variables import Output


async def capture(run: TurnContext, action: Action, said: str) -> None:
    """Update the `auto` variables in scope from a message, by its labels or else by one model call.

    A failed model call adds a warning only; the turn continues.
    """
    question_variables = _question_variables(run, action)
    outputs = tuple(
        Output(get=each.var, define=each.define, type=each.type, choice_list=each.choices, at=each.at)
        for name, each in run.scopes.declarations().items()
        if each.auto and name not in question_variables
    )
    if not outputs or not said.strip():
        return
    values: dict[str, object] = dict(read_labelled(outputs, said, run.today(), run.state.locale))
    others = tuple(output for output in outputs if output.get not in values)
    if others:
        try:
            values |= (await complete(run, "extract", action, Evaluation(""), outputs=others, reply=said)).values
        except (ModelFailed, BudgetExceeded) as failed:
            run.warn("auto_failed", str(failed))
    for output in outputs:
        value = check_value(output, values.get(output.get), run.progress.values, run.holds)
        if not isinstance(value, AnswerRefused) and is_given(value):
            run.assign(output.get, value, "user", output)


def _question_variables(run: TurnContext, action: Action) -> frozenset[str]:
    """Return the names of the variables that an action asks for itself."""
    match action:
        case Ask() | AiAsk():
            return frozenset(item.get for item in action.outputs if isinstance(item, Output))
        case Choose():
            return frozenset([action.variable])
        case Form():
            return frozenset(field.name for field in run.program.forms[action.sheet].fields)
        case _:
            return frozenset()
