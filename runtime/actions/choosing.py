"""Answers offered as buttons: `choose` takes one of them, `user_say` only suggests."""

from runtime.actions.leading_away import after_failure
from runtime.answers import Choice, match_choice
from runtime.outcomes import DONE, Enter, Outcome, Waits, offering
from runtime.phrases import phrase
from runtime.run import Run
from runtime.state import Wait
from scripts.actions import ChoiceItem, Choose, UserSay, rounds_of
from scripts.values import Value
from scripts.variables import Output


def choose(run: Run, action: Choose) -> Outcome:
    """Puts the question, where there is one, and offers the choices."""
    run.progress.prompt = run.text(action.question)
    return _offer(run, action, run.progress.prompt)


def answer_choose(run: Run, action: Choose, reply: str, key: str | None) -> Outcome:
    """Takes a choice by its key, or by what a reply says: key, number or text."""
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
    """Return what it takes, as an output: one of the texts that its choices become."""
    values = (_value(choice) for choice in action.choices)
    return Output(get=action.variable, type="choice", choices=tuple(each for each in values if isinstance(each, str)))


def _value(choice: ChoiceItem) -> Value:
    return choice.key if choice.value is None else choice.value


def _offer(run: Run, action: Choose, text: str) -> Outcome:
    run.say(text)
    return offering((choice.key, run.text(choice.text)) for choice in action.choices)


def user_say(run: Run, action: UserSay) -> Outcome:
    """Suggests a reply."""
    return Waits(Wait("suggestion", suggestion=run.text(action.text)))
