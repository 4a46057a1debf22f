"""The model of a server: made of its settings, looked at, and closed."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec
import structlog

from api.settings import OFFLINE, Settings
from runtime.models.hosted.settings import OPENAI, ModelSettings, Secret
from runtime.models.offline import OfflineModel
from runtime.models.scripted import ScriptedModel
from runtime.ports import Model
from scripts.actions import ModelStep
from scripts.model import Script, all_actions
from scripts.suggest import suggest

log = structlog.get_logger()

SCRIPTED = "scripted:"


class ModelUnknown(ValueError):
    """A setting that names no model, or one that cannot be used as it is set; the message says why."""


@runtime_checkable
class Connected(Protocol):
    """A model that keeps connections to endpoints."""

    def has_model(self, name: str) -> bool:
        """Whether a script may name it."""

    def has_scheme(self, scheme: str) -> bool:
        """Whether there is any prompt of a `template_scheme`."""

    def states(self) -> Mapping[str, str]:
        """The state of the endpoint behind each model that is in use, by its name."""

    async def close(self) -> None:
        """Closes the connections."""


def make_model(settings: Settings) -> Model:
    """The model that the settings name. Raises ModelUnknown, ScriptedFileInvalid."""
    name = settings.model
    if name == OFFLINE:
        return OfflineModel()
    if name.startswith(SCRIPTED) and name != SCRIPTED:
        return ScriptedModel.from_file(Path(name.removeprefix(SCRIPTED)))
    own = settings.own_model
    _check(name, "model", settings)
    _check(own.fallback if own is not None else "", "model_fallback", settings)
    for each, found in settings.models.items():
        _check(found.fallback, f"models.{each}.fallback", settings)
        if found.fallback == each:
            raise ModelUnknown(f"models.{each}.fallback: a model is no fall-back of its own; name another one")
    named = {each: _with_key(each, found) for each, found in settings.models.items()}

    # the client of these takes its time to load, and who runs without a language model needs none of it
    from runtime.models.hosted.router import HostedModels
    from runtime.prompts.rendering import Prompts
    from runtime.prompts.templates import PromptInvalid

    try:
        prompts = Prompts.load(settings.prompts_folder)
    except PromptInvalid as error:
        raise ModelUnknown(str(error)) from error
    return HostedModels(name, prompts, named, own)


def state_of(model: Model) -> str:
    """How the model is, as far as that is known without asking it anything."""
    if isinstance(model, Connected):
        return ", ".join(f"{name}: {state}" for name, state in model.states().items())
    return "no endpoint"


def log_lacking(model: Model, script: Script) -> None:
    """Warns of what a script names and the server does not have; it is published all the same. Where the server's
    model is none of these, every script runs on it, whatever it names.
    """
    if not isinstance(model, Connected):
        return
    steps = (action for action in all_actions(script) if isinstance(action, ModelStep))
    named = dict.fromkeys(name for name in (script.model, *(step.model for step in steps)) if name)
    models = [name for name in named if not model.has_model(name)]
    if models:
        log.warning("script names models that the server does not have", script=script.id, models=models)
    if script.template_scheme and not model.has_scheme(script.template_scheme):
        log.warning(
            "script names a template_scheme that the server has no prompt of",
            script=script.id,
            scheme=script.template_scheme,
        )


async def close_model(model: Model) -> None:
    """Closes what connections a model keeps."""
    if isinstance(model, Connected):
        await model.close()


def _check(name: str, setting: str, settings: Settings) -> None:
    """Raises ModelUnknown where a setting names a model that is none of the language models."""
    if not name or name in settings.models or (name.startswith(OPENAI) and name != OPENAI and settings.own_model):
        return
    if name.startswith(OPENAI) and name != OPENAI:
        raise ModelUnknown(f"{setting}: {name!r} is at the server's own endpoint; set model_url or model_key")
    usual = f"use `{OFFLINE}`, `{SCRIPTED}FILE`, `{OPENAI}NAME`, or the name of a table `[models.NAME]`"
    fix = suggest(name, [OFFLINE, *settings.models], usual)
    raise ModelUnknown(f"{setting}: there is no model {name!r}; {fix}")


def _with_key(name: str, settings: ModelSettings) -> ModelSettings:
    """With the key from the environment, where it is kept there. Raises ModelUnknown."""
    if not settings.key_env:
        return settings
    key = os.environ.get(settings.key_env, "").strip()
    if not key:
        raise ModelUnknown(f"models.{name}.key_env: the environment has no {settings.key_env}")
    try:
        return msgspec.structs.replace(settings, key=Secret(key), key_env="")
    except ValueError as error:
        raise ModelUnknown(f"models.{name}.key_env: {error}") from error
