"""`if_known`: questions whose variables have values already are skipped, or confirmed."""

from runtime.actions.outcomes import DONE, Outcome, offering
from runtime.answers.booleans import parse_boolean
from runtime.answers.choices import match_choice
from runtime.answers.reply_values import is_blank
from runtime.state.state import Choice
from runtime.turn.context import TurnContext
from scripts.expressions.values import is_given
from scripts.model.actions import AiAsk, Ask, Choose
from scripts.model.variables import Output
from scripts.translations.localisation import Phrase

YES: Phrase = "yes"
NO: Phrase = "no"


def pass_over(run: TurnContext, action: Ask | AiAsk | Choose) -> Outcome | None:
    """Return the outcome of a question with another policy than `ask`; None if it must be asked."""
    if not all(_is_known(run, action, name) for name in _names(action)):
        return None
    if action.if_known.policy == "skip":
        return _finish(run, action)
    run.progress.is_confirmation = True
    run.progress.prompt = run.text(action.if_known.confirm)
    return _confirm(run)


def answer_confirmation(run: TurnContext, action: Ask | AiAsk | Choose, reply: str, key: str | None) -> Outcome | None:
    """Return the outcome of a reply to the confirmation; None if the question must be asked."""
    if key is None and is_blank(reply):
        return _confirm(run)
    run.state.progress = None
    is_confirmed = key == YES if key is not None else _agrees(run, reply)
    return _finish(run, action) if is_confirmed else None


def _confirm(run: TurnContext) -> Outcome:
    run.say(run.progress.prompt)
    return offering(_choices(run))


def _choices(run: TurnContext) -> tuple[Choice, ...]:
    return tuple(Choice(key, run.phrase(key)) for key in (YES, NO))


def _agrees(run: TurnContext, reply: str) -> bool:
    key = match_choice(reply, _choices(run), run.state.locale)
    return key == YES if key is not None else bool(parse_boolean(reply, run.state.locale))


def _finish(run: TurnContext, action: Ask | AiAsk | Choose) -> Outcome:
    if not isinstance(action, Choose):
        run.assign_computed(action.outputs)
    return DONE


def _names(action: Ask | AiAsk | Choose) -> tuple[str, ...]:
    """Return the variables that the user gives; records are never known, because a further one may follow."""
    if isinstance(action, Choose):
        return (action.variable,)
    return tuple(item.variable for item in action.outputs if isinstance(item, Output)) or ("",)


def _is_known(run: TurnContext, action: Ask | AiAsk | Choose, name: str) -> bool:
    """Return whether a variable has a value that is no default.

    After a jump to the topic, a value that this question has stored is asked again, but not in each pass of a loop.
    """
    found = run.scopes.cell(name) if name else None
    if found is None or not is_given(found[1].value) or found[1].source == "default":
        return False
    is_again = run.state.is_jump and not any(frame.passes for frame in run.state.frames)
    return not (is_again and found[1].by == (*run.home(), action.id))
