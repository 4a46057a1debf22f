"""How a server is set up: cuebook.toml, then CUEBOOK_* variables, then flags; an unknown name is an error."""

import os
import re
import tomllib
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from api.budgets import Budgets
from api.memory.sources import ExternalSettings
from api.webhooks.targets import read_target
from api.wording import worded
from runtime.amounts import Amount, Count
from runtime.context.chosen import Contexts
from runtime.models.hosted.settings import (
    OPENAI,
    OPENAI_URL,
    Attempts,
    FormatSetting,
    ModelSettings,
    Price,
    Secret,
    Temperature,
)
from runtime.run import Limits
from scripts.contexts import ContextSettings, read_settings
from scripts.model import Locale
from store.analytics.storage import OWN, StorageVersion
from store.embedders.names import WORDLLAMA, named
from store.retention import Policy, check_policies

FILE_NAME = "cuebook.toml"
PREFIX = "CUEBOOK_"
_FOLDERS = frozenset({"data", "scripts", "prompts", "auth_jwt_key_file", "snapshot_folder"})
_LISTS = frozenset({"cors_origins", "trusted_proxies", "webhook_private_targets"})  # with commas, where variables
_BUDGET = "budgets_"  # begins the names of budgets among variables
EXAMPLES = Path(__file__).parent.parent / "scripts" / "library"

OFFLINE = "offline"

_OF_MODEL = "model_"
_ORIGIN = re.compile(r"https?://[^/\s]+")


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that can be set. Sizes are bytes, times seconds."""

    data: Path = Path("cuebook-data")
    scripts: Path = EXAMPLES
    prompts: Path | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    model: str = OFFLINE
    model_url: str | None = None  # of the server's own endpoint, as all that follows; what is not set is as in `models`
    model_key: Secret | None = None
    model_timeout_s: Amount | None = None
    model_attempts: Attempts | None = None
    model_concurrency: Count | None = None
    model_fallback: str | None = None
    model_format: FormatSetting | None = None
    model_temperature: Temperature | None = None
    model_output_tokens_max: Count | None = None
    model_context_tokens_max: Count | None = None
    model_input_price: Price | None = None
    model_output_price: Price | None = None
    models: dict[str, ModelSettings] = {}
    embedder: str = WORDLLAMA
    embedder_url: str | None = None  # of `openai:`; neither this nor a key: the server's own endpoint of models
    embedder_key: Secret | None = None
    embedder_device: str | None = None
    embedder_batch: Annotated[int, Meta(ge=1, le=2_048)] = 32
    embedder_timeout_s: Amount = 30.0
    memory_units_max: Count = 100_000  # of one user; where there are more, those that matter least are forgotten
    memory_summarise_from: Annotated[int, Meta(ge=0, le=10_000)] = 0  # units in no summary; 0: only when asked for
    memory_summary_units_max: Annotated[int, Meta(ge=2, le=1_000)] = 60  # that one summary tells of
    memory_summary_tokens_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 2_000
    memory_forget_share: Annotated[float, Meta(gt=0, le=1)] = 0.1  # of those that may be
    memories: dict[str, ExternalSettings] = {}
    locale: Locale | None = None
    busy: Literal["reject", "queue"] = "reject"
    queue_s: Amount = 30.0
    queue_max: Count = 64
    hot_sessions_max: Count = 10_000
    body_bytes_max: Count = 1_000_000
    import_bytes_max: Count = 50_000_000
    actions_max: Count = 1_000
    model_calls_max: Count = 50
    output_chars_max: Count = 100_000
    turn_s: Amount = 120.0
    context: ContextSettings | str | None = None
    context_s: Amount = 20.0
    recalls_max: Count = 20
    recall_s: Amount = 10.0
    budgets: Budgets = Budgets()
    connections_max: Annotated[int, Meta(ge=64, le=1_000_000)] = 8_192
    address_connections_max: Count = 4_096
    requests_max: Count = 4_000  # open at a time, streams among them
    client_requests_max: Count = 2_000  # of one key or one address
    receive_s: Annotated[float, Meta(gt=0, le=30)] = 30.0
    trusted_proxies: list[str] = field(default_factory=lambda: ["127.0.0.1", "::1"])
    streams_max: Count = 2_000
    client_streams_max: Count = 1_000
    session_streams_max: Count = 10
    stream_s: Amount = 3_600.0
    stream_write_s: Amount = 30.0
    keep_alive_s: Amount = 15.0
    webhooks_max: Count = 20
    webhooks_http: bool = False
    webhook_private_targets: list[str] = []  # networks and hosts, with a port or without
    webhook_timeout_s: Amount = 10.0
    webhook_attempts: Count = 10
    webhook_retry_s: Amount = 5.0
    webhook_concurrency: Count = 32
    webhook_pending_max: Count = 10_000
    webhook_keep_s: Amount = 604_800.0
    snapshot_every_h: Annotated[float, Meta(ge=0, le=8_760)] = 0.0  # 0: only when asked for
    snapshot_folder: Path | None = None
    snapshot_keep: Annotated[int, Meta(ge=1, le=10_000)] = 7
    snapshot_masked: bool = True
    snapshot_storage_version: StorageVersion = OWN
    requests_per_minute: Annotated[int, Meta(ge=0, le=10_000_000)] | None = None  # none: only where there are keys
    cors_origins: list[str] = []
    auth_jwt_algorithm: Literal["HS256", "RS256", "EdDSA"] | None = None
    auth_jwt_key: Secret | None = None
    auth_jwt_key_file: Path | None = None
    auth_jwt_audience: str | None = None
    auth_jwt_issuer: str | None = None
    auth_jwt_leeway_s: Annotated[float, Meta(ge=0, le=600)] = 30.0
    auth_jwt_tenant_claim: str = ""  # empty: all tokens are of the tenant `default`
    auth_jwt_roles_claim: str = "roles"
    auth_jwt_user_claim: str = "sub"  # empty: no token is bound to a user
    retention: list[Policy] = []
    retention_every_h: Annotated[float, Meta(ge=0, le=8_760)] = 24.0  # 0: only when asked for
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def __post_init__(self) -> None:
        for name in self.models:
            if name in {"", OFFLINE} or ":" in name:
                raise ValueError(f"a model of `models` cannot have the name {name!r}; choose a plain word")
        for origin in self.cors_origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin!r} of `cors_origins` is no origin, such as https://app.example.com")
        for proxy in self.trusted_proxies:
            try:
                ip_network(proxy)
            except ValueError as error:
                raise ValueError(
                    f"{proxy!r} of `trusted_proxies` is no address or network, such as 10.0.0.0/8: {error}"
                ) from None
        for target in self.webhook_private_targets:
            try:
                read_target(target)
            except ValueError as error:
                raise ValueError(f"webhook_private_targets: {error}") from None
        check_policies(self.retention)
        _ = self.own_model  # whose settings must fit together
        _ = named(self.embedder), self.embedder_endpoint
        _ = self.contexts

    @property
    def own_model(self) -> ModelSettings | None:
        """The server's own endpoint; None where nothing says that there is one."""
        names = [name.removeprefix(_OF_MODEL) for name in self.__struct_fields__ if name.startswith(_OF_MODEL)]
        given = {name: getattr(self, _OF_MODEL + name) for name in names if name in ModelSettings.__struct_fields__}
        if not (self.model.startswith(OPENAI) or self.model_url or self.model_key):
            return None
        return ModelSettings(**{name: value for name, value in given.items() if value is not None})

    @property
    def embedder_endpoint(self) -> ModelSettings | None:
        """The endpoint of embedders `openai:NAME`: their own, else that of models; None where there is neither."""
        if not (self.embedder_url or self.embedder_key):
            return self.own_model
        try:
            return ModelSettings(url=self.embedder_url or OPENAI_URL, key=self.embedder_key or Secret(""))
        except ValueError as error:
            raise ValueError(f"embedder_url, embedder_key: {error}") from None

    @property
    def contexts(self) -> Contexts:
        """The strategies that sessions may be in; where neither script nor session names one, it is `context`."""
        return Contexts(default=None if self.context is None else read_settings(self.context))

    @property
    def prompts_folder(self) -> Path:
        """Where the operator's own prompts are; it need not be there."""
        return self.prompts or self.scripts / "prompts"

    @property
    def limits(self) -> Limits:
        """What one turn may cost."""
        return Limits(
            actions_max=self.actions_max,
            model_calls_max=self.model_calls_max,
            output_chars_max=self.output_chars_max,
            turn_s=self.turn_s,
            context_s=self.context_s,
            recalls_max=self.recalls_max,
            recall_s=self.recall_s,
            turn_budget=self.budgets.bounds("turn"),
            session_budget=self.budgets.bounds("session"),
        )


class SettingsInvalid(ValueError):
    """A setting that cannot be used; the message names it and where it came from."""


def load_settings(
    file: Path | None = None, flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """The settings from file, environment and flags; a flag of None counts as not given. Raises SettingsInvalid."""
    given = dict(_from_file(file))
    from_environment = _from_environment(os.environ if environment is None else environment)
    given |= from_environment | {"budgets": given.get("budgets", {}) | from_environment.get("budgets", {})}
    given |= {name: value for name, value in (flags or {}).items() if value is not None}
    return _convert(given, "settings")


def _from_file(file: Path | None) -> Mapping[str, Any]:
    path = file or Path(FILE_NAME)
    if file is None and not path.exists():
        return {}
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsInvalid(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsInvalid(f"{path}: {error}") from error
    _convert(data, str(path))
    # paths in a file are meant from where the file lies
    for table in data.get("memories", {}).values():
        table["path"] = str(path.parent / table["path"])
    return {name: path.parent / value if name in _FOLDERS else value for name, value in data.items()}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {
        name.removeprefix(PREFIX).lower(): value for name, value in environment.items() if name.startswith(PREFIX)
    }
    budgets = {name: given.pop(name) for name in list(given) if name.startswith(_BUDGET)}
    given = {
        name: [*filter(None, map(str.strip, value.split(",")))] if name in _LISTS else value
        for name, value in given.items()
    }
    for name, value in given.items():
        _convert({name: value}, PREFIX + name.upper())
    for name, value in budgets.items():
        _convert({"budgets": {name.removeprefix(_BUDGET): value}}, PREFIX + name.upper())
    return given | {"budgets": {name.removeprefix(_BUDGET): value for name, value in budgets.items()}}


def _convert(given: Mapping[str, Any], origin: str) -> Settings:
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
    try:
        return msgspec.convert(plain, Settings, strict=False, dec_hook=_from_text)
    except msgspec.ValidationError as error:
        problem = worded(str(error)).replace("Object contains unknown field", "there is no setting")
        for name, kind in (("models", ModelSettings), ("memories", ExternalSettings)):
            problem = problem.replace(f"{name}[...]", f"{name}.{_wrong_table(plain.get(name), kind)}")
        raise SettingsInvalid(f"{origin}: {problem}") from error


def _wrong_table(tables: Any, kind: type[Struct]) -> str:
    """The name of the first table that is not as it should be; the error itself does not tell."""
    for name, table in tables.items() if isinstance(tables, dict) else ():
        try:
            msgspec.convert(table, kind, strict=False, dec_hook=_from_text)
        except msgspec.ValidationError:
            return str(name)
    return "*"


def _from_text(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value).expanduser()
    if kind is Secret and isinstance(value, str):
        return Secret(value.strip())
    if kind in {Path, Secret}:
        raise TypeError("expected a text")
    raise NotImplementedError
