"""Checks that the time limits of the settings leave room for each other."""

from collections.abc import Iterator, Mapping

from api.settings import OFFLINE, SCRIPTED, Settings
from runtime.models.hosted.settings import ModelSettings


def misfits(settings: Settings) -> tuple[str, ...]:
    """List the limits that their enclosing limit cuts off, each with its values and the setting to change."""
    return (*_of_turns(settings), *_of_models(settings))


def _of_turns(settings: Settings) -> Iterator[str]:
    for name in ("context_s", "recall_s"):
        limit = getattr(settings, name)
        if limit > settings.turn_s:
            yield f"{name} = {limit:g} s is more than turn_s = {settings.turn_s:g} s; raise turn_s, or lower {name}"


def _of_models(settings: Settings) -> Iterator[str]:
    """A turn must have room for all attempts of one call, including those of its fallback models."""
    if settings.model == OFFLINE or settings.model.startswith(SCRIPTED):
        return
    models = _models(settings)
    for name in models:
        terms, total = [], 0.0
        for each in _chain(name, models):
            model = models[each]
            terms.append(f"{each}timeout_s × {each}attempts = {model.timeout_s:g} × {model.attempts}")
            total += model.timeout_s * model.attempts
        if total > settings.turn_s:
            yield (
                f"{' plus '.join(terms)} is {total:g} s, more than turn_s = {settings.turn_s:g} s: a turn ends before "
                f"the last attempt at a call does; raise turn_s to {total:g}, or lower the others"
            )


def _models(settings: Settings) -> Mapping[str, ModelSettings]:
    """Return the models by the prefix of their settings."""
    own = {} if settings.own_model is None else {"model_": settings.own_model}
    return own | {_prefix_of(name): model for name, model in settings.models.items()}


def _prefix_of(name: str) -> str:
    return f"models.{name}."


def _chain(name: str, models: Mapping[str, ModelSettings]) -> list[str]:
    """Return a model and its fallback models, each once."""
    chain = [name]
    while (fallback := models[chain[-1]].fallback) and (then := _fallback(fallback, models)) and then not in chain:
        chain.append(then)
    return chain


def _fallback(name: str, models: Mapping[str, ModelSettings]) -> str:
    """Return the prefix of a fallback model's settings: its own table, or the server's own endpoint."""
    return next((each for each in (_prefix_of(name), "model_") if each in models), "")
