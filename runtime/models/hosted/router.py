"""Routing of a request to its language model, and to the fall-back if that fails."""

import time
from collections.abc import Callable, Mapping

import msgspec

from runtime.models.hosted.endpoint import Endpoint, Line
from runtime.models.hosted.model import HostedModel
from runtime.models.hosted.settings import OPENAI, ModelSettings
from runtime.models.hosted.usage import together
from runtime.prompts.rendering import Prompts
from runtime.prompts.templates import DEFAULT
from runtime.state.ports import GivenUp, ModelFailed, ModelReply, ModelRequest, OnReply, Usage

MODELS_MAX = 200  # that are cached; scripts may name any model of the endpoint


class HostedModels:
    """The language models of a server by name, and `openai:NAME` for any model at its own endpoint."""

    def __init__(
        self,
        default: str,
        prompts: Prompts,
        named: Mapping[str, ModelSettings],
        own: ModelSettings | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.default = default
        self._prompts = prompts
        self._named = named
        self._own = own
        self._clock = clock
        self._models: dict[str, HostedModel] = {}
        self._endpoints: dict[Line, Endpoint] = {}

    def goes_to(self, request: ModelRequest) -> str:
        """Return the model that the script names, else the server's default."""
        return request.model or self.default

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        """Return the reply of the model, or of its fall-back. Raises ModelFailed."""
        name, spent, tried = self.goes_to(request), None, set[str]()
        while True:
            tried.add(name)
            model = self._model(name)
            try:
                reply = await model.complete(request, hear)
            except ModelFailed as failed:
                spent = _sum(spent, failed.usage)
                name = model.settings.fallback
                if not name or name in tried:
                    raise ModelFailed(str(failed), retryable=failed.retryable, usage=spent) from None
            except BaseException as reason:
                if isinstance(reason.__cause__, GivenUp) and spent is not None:
                    raise reason from GivenUp(together(spent, reason.__cause__.usage))
                raise
            else:
                return msgspec.structs.replace(reply, usage=_sum(spent, reply.usage))

    def has_model(self, name: str) -> bool:
        """Return whether scripts may use a model of this name."""
        return name in self._named or (self._own is not None and name.removeprefix(OPENAI) not in {name, ""})

    def names(self) -> list[str]:
        """Return the names of the configured models, the default first."""
        return list(dict.fromkeys((self.default, *self._named)))

    def has_scheme(self, scheme: str) -> bool:
        """Return whether a scheme is `default` or has prompts; otherwise the default ones are used."""
        return scheme == DEFAULT.name or scheme in self._prompts.schemes

    def states(self) -> Mapping[str, str]:
        """Return the breaker states of the default model and of all models used so far, by name."""
        return {name: self._model(name).endpoint.breaker.state for name in {self.default: None, **self._models}}

    async def close(self) -> None:
        """Close all connections."""
        for endpoint in self._endpoints.values():
            await endpoint.close()

    def _model(self, name: str) -> HostedModel:
        """Return the model of a name. Raises ModelFailed."""
        if name not in self._models:
            settings = self._settings(name)
            while len(self._models) >= MODELS_MAX:
                del self._models[next(iter(self._models))]
            self._models[name] = HostedModel(name, settings, self._endpoint(settings), self._prompts, self._clock)
        return self._models[name]

    def _settings(self, name: str) -> ModelSettings:
        if name in self._named:
            return self._named[name]
        if self._own is not None and self.has_model(name):
            return msgspec.structs.replace(self._own, model=name.removeprefix(OPENAI))
        known = ", ".join(f"`{each}`" for each in (*self._named, *([f"{OPENAI}NAME"] if self._own is not None else ())))
        raise ModelFailed(f"this server has no model `{name}`; it has {known}", retryable=False)

    def _endpoint(self, settings: ModelSettings) -> Endpoint:
        """Return the endpoint of settings; models with the same address, key and limits share it and its limits."""
        line = Line(settings.url, settings.key, settings.timeout_s, settings.concurrency)
        if line not in self._endpoints:
            self._endpoints[line] = Endpoint(line, self._clock)
        return self._endpoints[line]


def _sum(spent: Usage | None, more: Usage | None) -> Usage | None:
    return together(spent, more) if spent is not None and more is not None else more or spent
