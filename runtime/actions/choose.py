"""Answers offered as buttons: `choose` requires one of them, `user_say` only suggests one."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from runtime.actions.blocks import items_of
from runtime.actions.outcomes import DONE, Enter, Outcome, Waits, after_failure, offering
from runtime.answers.choices import match_choice
from runtime.answers.reply_values import is_blank
from runtime.state.state import Choice, Wait
from runtime.turn.context import TurnContext
from scripts.expressions.values import Value, is_given, text_of
from scripts.model.actions import ChoiceItem, Choose, ListedChoices, UserSay, choice_arm, rounds_of
from scripts.model.variables import Output

CHOICES_MAX = 100  # choices of a list that are offered


class Offer(Struct, frozen=True):
    """A choice as it is offered, the value that it stores, and whether it has actions."""

    choice: Choice
    value: Value
    once: bool
    has_actions: bool = False


def choose(run: TurnContext, action: Choose) -> Outcome:
    """Ask the question, if there is one, and offer the choices that are left; without any, follow `on_fail`."""
    offers = _open_offers(run, action)
    if not offers:
        run.warn_missing(action.variable, "no choice is left")
        return after_failure(run, action)
    run.progress.prompt = run.text(action.question)
    return _offer(run, offers, run.progress.prompt)


def answer_choose(run: TurnContext, action: Choose, reply: str, key: str | None, offered: Sequence[Choice]) -> Outcome:
    """Select a choice by its key, or by a reply that contains a key, number or text of those that were `offered`: a
    list may have changed since.
    """
    offers = _open_offers(run, action)
    if key is None and is_blank(reply) and offers:
        return _offer(run, offers, run.progress.said_last)
    run.progress.round += 1
    key = match_choice(reply, offered, run.state.locale) if key is None else key
    picked = next((offer for offer in _offers(run, action) if offer.choice.key == key), None)
    if picked is not None:
        return _take(run, action, picked)
    if offers and run.progress.round < rounds_of(action):
        sorry = run.phrase("choice", tuple(offer.choice.text for offer in offers))
        run.progress.complaint = run.text(action.invalid) if action.invalid is not None else sorry
        return _offer(run, offers, run.progress.complaint)
    run.warn_missing(action.variable, "none of the choices was taken")
    return after_failure(run, action)


def _take(run: TurnContext, action: Choose, offer: Offer) -> Outcome:
    key = offer.choice.key
    run.assign(action.variable, offer.value, "user", as_output(action))
    if offer.once:
        place = _place(run, action)
        run.state.taken[place] = [*run.state.taken.get(place, []), key]
    return Enter(choice_arm(key)) if offer.has_actions else DONE


def as_output(action: Choose) -> Output:
    """Return the output of a choice: one of the texts that its choices stand for, or any value of a list."""
    if not action.is_fixed:
        return Output(get=action.variable)
    values = (_value(choice) for choice in action.fixed)
    return Output(
        get=action.variable, type="choice", choice_list=tuple(each for each in values if isinstance(each, str))
    )


def _value(choice: ChoiceItem) -> Value:
    return choice.key if choice.value is None else choice.value


def _place(run: TurnContext, action: Choose) -> str:
    """Return the key of an action in `State.taken`."""
    return "/".join((*run.home(), action.id))


def _open_offers(run: TurnContext, action: Choose) -> list[Offer]:
    """Return the choices that may be offered now."""
    taken = run.state.taken.get(_place(run, action), ())
    return [offer for offer in _offers(run, action, only_open=True) if offer.choice.key not in taken]


def _offers(run: TurnContext, action: Choose, *, only_open: bool = False) -> Iterator[Offer]:
    """Yield the choices with different keys; `only_open`: only those whose `when` is true."""
    seen = set[str]()
    for item in action.choices:
        found = (
            _offer_listed(run, item, only_open)
            if isinstance(item, ListedChoices)
            else _offer_fixed(run, item, only_open)
        )
        for offer in found:
            if offer.choice.key not in seen:
                seen.add(offer.choice.key)
                yield offer


def _offer_fixed(run: TurnContext, item: ChoiceItem, only_open: bool) -> Iterator[Offer]:
    if not only_open or run.holds(item.when):
        yield Offer(Choice(item.key, run.text(item.text)), _value(item), item.once, bool(item.actions))


def _offer_listed(run: TurnContext, item: ListedChoices, only_open: bool) -> Iterator[Offer]:
    for each in items_of(run, item.loop)[:CHOICES_MAX]:
        names = {item.loop.name: each}
        if only_open and not run.holds(item.when, names):
            continue
        value = run.value(item.key, names)
        if is_given(value):
            yield Offer(Choice(text_of(value), run.text(item.text, names)), value, item.once)


def _offer(run: TurnContext, offers: list[Offer], text: str) -> Outcome:
    run.say(text)
    return offering(offer.choice for offer in offers)


def wait_for_choice(run: TurnContext, action: Choose) -> Wait:
    """Return the wait with the choices that may be offered now."""
    return offering(offer.choice for offer in _open_offers(run, action)).wait


def user_say(run: TurnContext, action: UserSay) -> Outcome:
    """Suggest a reply."""
    return Waits(Wait("suggestion", suggestion=run.text(action.text)))
