"""Values that are made of personal ones, and kept under names that are not."""

from collections.abc import Iterator

from scripts.actions import Action, AiAsk, AiThink, Ask, Call, Set
from scripts.diagnostics import Problems
from scripts.expressions import compile_expression
from scripts.model import Script, all_actions
from scripts.nodes import Expression
from scripts.personal import personal_names
from scripts.sandbox import ExpressionInvalid
from scripts.variables import Assignment


def check_copies(script: Script, problems: Problems) -> None:
    """Adds a problem for each variable that gets a personal value without being personal: it is masked as far as that
    value can be found in it again, which a date or a number that was computed cannot be.
    """
    names = personal_names(script)
    if not names:
        return
    written = [(action.id, *each) for action in all_actions(script) for each in _written(action)]
    fields = [(sheet.id, field) for sheet in script.forms for field in sheet.fields]
    written += [(place, field.name, field.computed) for place, field in fields if field.computed is not None]
    for place, target, value in written:
        source = None if target in names else min(_taken(value) & names, default=None)
        if source is not None:
            message = f"`{target}` is made of `{source}`, which is personal, and is not personal itself"
            problems.add("PERSONAL_COPIED", message, value.at, path=place)


def _written(action: Action) -> Iterator[tuple[str, Expression]]:
    match action:
        case Set():
            yield from action.assignments.items()
        case Call():
            yield from action.input.items()
        case Ask() | AiAsk() | AiThink():
            yield from ((item.set, item.value) for item in action.outputs if isinstance(item, Assignment))
        case _:
            pass


def _taken(value: Expression) -> frozenset[str]:
    """The names whose values are still in what an expression comes to."""
    try:
        return compile_expression(value.source).facts.carried
    except ExpressionInvalid:
        return frozenset()
