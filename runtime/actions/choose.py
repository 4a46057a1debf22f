"""Answers offered as buttons: `choose` requires one of them, `user_say` only suggests one."""

from runtime.actions.outcomes import DONE, Enter, Outcome, Waits, after_failure, offering
from runtime.answers.choices import match_choice
from runtime.answers.languages import phrase
from runtime.state.state import Choice, Wait
from runtime.turn.context import TurnContext
from scripts.expressions.values import Value
from scripts.model.actions import ChoiceItem, Choose, UserSay, rounds_of
from scripts.model.variables import Output


def choose(run: TurnContext, action: Choose) -> Outcome:
    """Ask the question, if there is one, and offer the choices."""
    run.progress.prompt = run.text(action.question)
    return _offer(run, action, run.progress.prompt)


def answer_choose(run: TurnContext, action: Choose, reply: str, key: str | None) -> Outcome:
    """Select a choice by its key, or by a reply that contains a key, number or text."""
    if key is None and not reply.strip():
        return _offer(run, action, run.progress.said_last)
    run.progress.round += 1
    choices = [Choice(choice.key, run.text(choice.text)) for choice in action.choices]
    key = match_choice(reply, choices, run.state.locale) if key is None else key
    picked = next((choice for choice in action.choices if choice.key == key), None)
    if picked is not None:
        run.assign(action.variable, _value(picked), "user", as_output(action))
        return Enter(picked.key) if picked.actions else DONE
    if run.progress.round < rounds_of(action):
        texts, own = tuple(choice.text for choice in choices), run.program.script.phrases
        sorry = phrase(run.state.locale, "choice", texts, own=own)
        run.progress.complaint = run.text(action.invalid) if action.invalid is not None else sorry
        return _offer(run, action, run.progress.complaint)
    run.warn("value_missing", f"`{action.variable}` stays unset: none of the choices was taken")
    return after_failure(run, action.on_fail, action.id) or DONE


def as_output(action: Choose) -> Output:
    """Return the output of a choice: one of the texts that its choices stand for."""
    values = (_value(choice) for choice in action.choices)
    return Output(get=action.variable, type="choice", choices=tuple(each for each in values if isinstance(each, str)))


def _value(choice: ChoiceItem) -> Value:
    return choice.key if choice.value is None else choice.value


def _offer(run: TurnContext, action: Choose, text: str) -> Outcome:
    run.say(text)
    return offering((choice.key, run.text(choice.text)) for choice in action.choices)


def user_say(run: TurnContext, action: UserSay) -> Outcome:
    """Suggest a reply."""
    return Waits(Wait("suggestion", suggestion=run.text(action.text)))
