"""What is taken from every message of the user's, whatever is being asked: the variables declared `auto`."""

from runtime.budgets import BudgetExceeded
from runtime.models.parsing import read_labelled
from runtime.ports import ModelFailed
from runtime.run import Run, Wording
from runtime.validation import Refused, checked
from scripts.actions import Action, AiAsk, Ask, Form
from scripts.values import is_given
from scripts.variables import Output


async def keep_up(run: Run, action: Action, said: str) -> None:
    """Brings the `auto` variables in sight up to date: by what a message names, else by one call of the model.

    A model that fails costs a warning only; the conversation does not depend on it.
    """
    asked = _asked(run, action)
    outputs = tuple(
        Output(get=each.var, define=each.define, type=each.type, choices=each.choices, at=each.at)
        for name, each in run.scopes.declarations().items()
        if each.auto and name not in asked
    )
    if not outputs or not said.strip():
        return
    values: dict[str, object] = dict(read_labelled(outputs, said, run.now().date(), run.state.locale))
    others = tuple(output for output in outputs if output.get not in values)
    if others:
        try:
            values |= (await run.complete("extract", action, Wording(), outputs=others, reply=said)).values
        except (ModelFailed, BudgetExceeded) as failed:
            run.warn("auto_failed", str(failed))
    for output in outputs:
        value = checked(run, output, values.get(output.get))
        if not isinstance(value, Refused) and is_given(value):
            run.assign(output.get, value, "user", output)


def _asked(run: Run, action: Action) -> frozenset[str]:
    """The variables that an action asks for itself."""
    match action:
        case Ask() | AiAsk():
            return frozenset(item.get for item in action.outputs if isinstance(item, Output))
        case Form():
            return frozenset(field.name for field in run.program.form(action.sheet).fields)
        case _:
            return frozenset()
