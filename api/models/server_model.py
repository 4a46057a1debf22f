"""The language model of a server: created from the settings, checked, and closed."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec
import structlog

from api.settings import OFFLINE, SCRIPTED, Settings
from runtime.models.hosted.settings import OPENAI, ModelSettings, Secret
from runtime.models.offline_model import OfflineModel
from runtime.models.recorded_models import ModelWithCassettes, ScriptedModel
from runtime.state.ports import Model
from scripts.expressions.suggestions import suggest
from scripts.model.actions import ModelStep
from scripts.model.script import Script, all_actions

if TYPE_CHECKING:
    from runtime.prompts.templates import TemplateSource

log = structlog.get_logger()


class ModelUnknown(ValueError):
    """A setting names an unknown model or one that cannot be used; the message says why."""


@runtime_checkable
class ConnectedModel(Protocol):
    """A model with connections to endpoints."""

    def has_model(self, name: str) -> bool:
        """Return whether a script may name a model."""

    def names(self) -> list[str]:
        """Return the names of the configured models, the default first."""

    def has_scheme(self, scheme: str) -> bool:
        """Return whether any prompt has this `template_scheme`."""

    def states(self) -> Mapping[str, str]:
        """Return the state of the endpoint of each model in use, by model name."""

    async def close(self) -> None:
        """Close the connections."""


def make_model(settings: Settings, edited: "TemplateSource | None" = None) -> Model:
    """Create the models that the settings name, with one `edited` prompt template among those of the settings.

    Raises ModelUnknown, ScriptedFileInvalid.
    """
    cassettes = {
        name: ScriptedModel.from_file(Path(table.cassette)) for name, table in settings.models.items() if table.cassette
    }
    model = cassettes.get(settings.model) or _model_of_server(settings, edited)
    return ModelWithCassettes(model, cassettes) if cassettes else model


def _model_of_server(settings: Settings, edited: "TemplateSource | None") -> Model:
    name = settings.model
    if name == OFFLINE:
        return OfflineModel()
    if name.startswith(SCRIPTED) and name != SCRIPTED:
        return ScriptedModel.from_file(Path(name.removeprefix(SCRIPTED)))
    own = settings.own_model
    _check(name, "model", settings)
    _check(own.fallback if own is not None else "", "model_fallback", settings)
    for each, table in settings.models.items():
        _check(table.fallback, f"models.{each}.fallback", settings)
        if table.fallback == each:
            raise ModelUnknown(f"models.{each}.fallback: a model cannot be its own fallback; name another one")
    named = {each: _with_key(each, table) for each, table in settings.models.items() if not table.cassette}

    # imported here because the client is slow to import and not needed without a language model
    from runtime.models.hosted.router import HostedModels
    from runtime.prompts.rendering import Prompts
    from runtime.prompts.templates import PromptInvalid, Templates

    try:
        templates = Templates.load(settings.prompts_folder)
        prompts = Prompts(templates if edited is None else templates.with_template(edited))
    except PromptInvalid as error:
        raise ModelUnknown(str(error)) from error
    return HostedModels(name, prompts, named, own)


def model_names(model: Model, settings: Settings) -> list[str]:
    """Return the names of the models that scripts and sessions may use, the server's own first; besides them,
    `openai:NAME` for any model of its own endpoint.
    """
    connected, cassettes = _parts(model)
    names = [settings.model] if connected is None else connected.names()
    return list(dict.fromkeys([*names, *cassettes]))


def require_model(model: Model, settings: Settings, name: str) -> None:
    """Raise ModelUnknown unless a session may use a model of this name."""
    known = model_names(model, settings)
    connected, _ = _parts(model)
    if name not in known and not (connected is not None and connected.has_model(name)):
        raise ModelUnknown(f"there is no model {name!r}; {suggest(name, known, 'use one of GET /api/models')}")


def state_of(model: Model) -> str:
    """Return the known state of a model, without a request to its endpoint."""
    connected, _ = _parts(model)
    if connected is None:
        return "no endpoint"
    return ", ".join(f"{name}: {state}" for name, state in connected.states().items())


def log_lacking(model: Model, script: Script) -> None:
    """Log a warning for models and prompts that a script names and the server lacks; the script is published all the
    same. If the server's own model is the offline or a scripted one, every script runs on it.
    """
    connected, cassettes = _parts(model)
    if connected is None:
        return
    steps = (action for action in all_actions(script) if isinstance(action, ModelStep))
    named = dict.fromkeys(name for name in (script.model, *(step.model for step in steps)) if name)
    models = [name for name in named if name not in cassettes and not connected.has_model(name)]
    if models:
        log.warning("script names models that the server does not have", script=script.id, models=models)
    if script.template_scheme and not connected.has_scheme(script.template_scheme):
        log.warning(
            "script names a template_scheme without any prompt on the server",
            script=script.id,
            scheme=script.template_scheme,
        )


async def close_model(model: Model) -> None:
    """Close the connections of a model."""
    connected, _ = _parts(model)
    if connected is not None:
        await connected.close()


def _parts(model: Model) -> tuple[ConnectedModel | None, Mapping[str, Model]]:
    """Return the model if it has connections, and the cassettes beside it."""
    inner, cassettes = (model.model, model.cassettes) if isinstance(model, ModelWithCassettes) else (model, {})
    return inner if isinstance(inner, ConnectedModel) else None, cassettes


def _check(name: str, setting: str, settings: Settings) -> None:
    """Raise ModelUnknown if a setting names an unknown model."""
    table = settings.models.get(name)
    if table is not None and table.cassette:
        raise ModelUnknown(f"{setting}: {name!r} is a cassette, which cannot replace a model that fails")
    if not name or table is not None or (name.startswith(OPENAI) and name != OPENAI and settings.own_model):
        return
    if name.startswith(OPENAI) and name != OPENAI:
        raise ModelUnknown(f"{setting}: {name!r} is at the server's own endpoint; set model_url or model_key")
    usual = f"use `{OFFLINE}`, `{SCRIPTED}FILE`, `{OPENAI}NAME`, or the name of a table `[models.NAME]`"
    fix = suggest(name, [OFFLINE, *settings.models], usual)
    raise ModelUnknown(f"{setting}: there is no model {name!r}; {fix}")


def _with_key(name: str, settings: ModelSettings) -> ModelSettings:
    """Return settings with the key from the environment variable that they name. Raises ModelUnknown."""
    if not settings.key_env:
        return settings
    key = os.environ.get(settings.key_env, "").strip()
    if not key:
        raise ModelUnknown(f"models.{name}.key_env: the environment variable {settings.key_env} is not set")
    try:
        return msgspec.structs.replace(settings, key=Secret(key), key_env="")
    except ValueError as error:
        raise ModelUnknown(f"models.{name}.key_env: {error}") from error
