"""Settings of a server: their names, types, defaults and meanings, and what follows from several of them."""

import os
import re
from functools import cached_property
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from api.schemas.allowed_targets import read_target
from runtime.context.selection import Contexts
from runtime.models.hosted.settings import (
    OPENAI,
    OPENAI_URL,
    Amount,
    Attempts,
    Count,
    ExtraBody,
    FormatSetting,
    ModelSettings,
    Price,
    Seconds,
    Secret,
    Temperature,
)
from runtime.state.limits import Bounds, Limits
from scripts.expressions.time_values import zone_of
from scripts.model.context_strategies import ContextSettings, read_settings
from scripts.model.script import Locale
from store.analytics.snapshots import OWN, StorageVersion
from store.embedders.names import WORDLLAMA, parse_name
from store.interface.retention_rows import Policy, check_policies

Delay: TypeAlias = Annotated[float, Meta(ge=0, le=3_600)]
Span: TypeAlias = Literal["turn", "session", "user_day", "day"]


class Budgets(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of tokens, of cost in the currency of the configured prices, and of calls. None is unlimited.

    A day begins at midnight UTC; `day` is the total of a tenant.
    """

    turn_tokens: Count | None = None
    """Tokens of one turn."""
    turn_cost: Amount | None = None
    """Cost of one turn."""
    turn_calls: Count | None = None
    """Calls of one turn."""
    session_tokens: Count | None = None
    """Tokens of one session."""
    session_cost: Amount | None = None
    """Cost of one session."""
    session_calls: Count | None = None
    """Calls of one session."""
    user_day_tokens: Count | None = None
    """Tokens of one user in a day."""
    user_day_cost: Amount | None = None
    """Cost of one user in a day."""
    user_day_calls: Count | None = None
    """Calls of one user in a day."""
    day_tokens: Count | None = None
    """Tokens of a tenant in a day."""
    day_cost: Amount | None = None
    """Cost of a tenant in a day."""
    day_calls: Count | None = None
    """Calls of a tenant in a day."""

    def bounds(self, span: Span) -> Bounds:
        """Return the limits of a span."""
        return Bounds(**{name: getattr(self, f"{span}_{name}") for name in Bounds.__struct_fields__})


class ExternalSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A memory outside the database. It is read on first use and never written."""

    path: Path
    """A data folder of Cuebook that no server has open, an exported memory, or a Parquet file of texts."""
    user: str | None = None
    """The user of the memory, required for a data folder."""
    tenant: str = "default"
    """The tenant of that user."""
    embedder: str | None = None
    """The embedder of the vectors in a Parquet file of texts, as in the setting `embedder`."""

    def __post_init__(self) -> None:
        if self.path.suffix in {"", ".duckdb"} and not self.user:
            raise ValueError("`user` is missing: the user of the memory in the data folder")


class ToolSecret(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A secret that headers of tools may contain, as `secret('NAME')`."""

    hosts: list[str]
    """The hosts that it may be sent to, each with a port unless it is that of https or http, such as
    `["shop.example", "shop.internal:8080"]`."""
    env: str = ""
    """The environment variable with the secret."""
    value: Secret = Secret("")
    """The secret itself; better is `env`."""

    def __post_init__(self) -> None:
        if bool(self.env) == bool(self.value):
            raise ValueError("a secret has either `env` or `value`")

    def text(self) -> str:
        """Return the secret itself; an environment variable that is not set is empty."""
        return os.environ.get(self.env, "").strip() if self.env else self.value.reveal()


class ToolProvider(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the server calls a tool whose declaration has no `http`."""

    python: str = ""
    """The name of an entry point in the group `cuebook.tools`."""
    mcp: str = ""
    """Or the name of an MCP server, a table `[mcp_servers.NAME]`."""
    tool: str = ""
    """The name of the tool at the MCP server; the default is the name in the script."""

    def __post_init__(self) -> None:
        if bool(self.python) == bool(self.mcp):
            raise ValueError("a tool has either `python` or `mcp`")


class McpServer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A server of the Model Context Protocol: a command that the server starts, or an address."""

    command: list[str] = []
    """The program and its arguments; it speaks over standard input and output."""
    env: dict[str, Secret] = {}
    """Environment variables of the command, besides a few harmless ones such as `PATH`."""
    url: str = ""
    """Or its URL, for Streamable HTTP."""

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("an MCP server has either `command` or `url`")


ADDRESS_FILE = "server-address"  # in the data folder while a server runs: its address, for other commands
KEY_FILE = "server-key"  # its key: an account that can read this file can read the database too
EXAMPLES = Path(__file__).parent.parent / "scripts" / "library"
PAGES = Path(__file__).parent / "console" / "static"  # where `make console` writes
SITE = Path(__file__).parent.parent / "site"  # where `make docs` writes

OFFLINE = "offline"
SCRIPTED = "scripted:"

_OF_MODEL = "model_"
_ORIGIN = re.compile(r"https?://[^/\s,;'\"]+")


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """All settings. Sizes are in bytes, times in seconds. A `model_…` without a text means what ModelSettings says."""

    data: Path = Path("cuebook-data")
    """The folder of the database, readable only by the account of the server (modes 0700 and 0600)."""
    database: Secret | None = None
    """`postgresql://…`: a PostgreSQL database in place of the database file, which several servers may use. `data` then
    has the key files of the server and what is derived from the database."""
    key_folder: Path | None = None
    """The folder of the key files; the default is `data`. Servers on one PostgreSQL database need the same ones."""
    scripts: Path = EXAMPLES
    """The folder of scripts, published at start. The default is the folder of example scripts."""
    prompts: Path | None = None
    """The folder of your own prompts, `custom/SCHEME/LANGUAGE/PURPOSE.jinja`; the default is `prompts` in `scripts`. It
    need not exist."""
    docs: Path = SITE
    """The folder of the built documentation, which is served at `/docs`; the default is where `make docs` writes it. It
    need not exist."""
    console: Path = PAGES
    """The folder of the built pages of the console, which is served at `/`; the default is where `make console` writes
    them. It need not exist."""
    host: str = "127.0.0.1"
    """The address to listen on; only loopback, as long as there are no keys."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    """The port to listen on."""
    locale: Locale | None = None
    """The language of sessions that name none, such as `en`, `de` or `pt-BR`. The default is the script's."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is logged: lines on standard error, without messages and values. The line of a failed turn has
    `request_id`, `session_id`, `script`, `script_version`, `turn`, `phase_id`, `topic_id` and `action_id`. `debug` adds
    a line for each turn with its actions and time, for each call of a model, each commit and each refused request."""
    log_format: Literal["json", "text"] | None = None
    """Whether the lines are JSON objects or texts for people. The default is `text` on a terminal, else `json`."""

    model: str = OFFLINE
    """`offline`, `scripted:FILE`, or a language model: `openai:NAME`, or the name of a table `[models.NAME]`."""
    model_url: str | None = None
    """The endpoint of `openai:NAME`."""
    model_key: Secret | None = None
    """The key of that endpoint; best as `CUEBOOK_MODEL_KEY`."""
    model_timeout_s: Seconds | None = None
    model_attempts: Attempts | None = None
    model_concurrency: Count | None = None
    model_fallback: str | None = None
    model_format: FormatSetting | None = None
    model_temperature: Temperature | None = None
    model_extra_body: ExtraBody | None = None
    model_output_tokens_max: Count | None = None
    model_context_tokens_max: Count | None = None
    model_input_price: Price | None = None
    model_output_price: Price | None = None
    models: dict[str, ModelSettings] = {}
    """Further models: tables `[models.NAME]`."""
    context: ContextSettings | str | None = None
    """What models see of conversations whose script and session do not say: the name of a strategy, or a table
    `[context]`. The default is the newest 50 messages."""
    context_s: Seconds = 20.0
    """The longest time for the summaries of a turn; never all that is left of `turn_s`."""
    budgets: Budgets = Budgets()
    """Limits on what calls of language models use: a table `[budgets]`."""

    embedder: str = WORDLLAMA
    """What finds memories by meaning: `wordllama`, `sentence-transformers:NAME_OR_FOLDER`, `openai:NAME`, or `none`."""
    embedder_url: str | None = None
    """The endpoint of an embedder `openai:NAME`. The default is `model_url`; if `embedder_url` or
    `embedder_key` is set, nothing is taken from the endpoint of models."""
    embedder_key: Secret | None = None
    """The key of that endpoint; best as `CUEBOOK_EMBEDDER_KEY`. The default is `model_key`."""
    embedder_device: str | None = None
    """Where `sentence-transformers` computes: `cpu`, `cuda`, `cuda:1`, `mps`. The default is the best one available."""
    embedder_batch: Annotated[int, Meta(ge=1, le=2_048)] = 32
    """Texts that are embedded at a time."""
    embedder_timeout_s: Seconds = 30.0
    """The longest time for a call of an embedder's endpoint."""
    memory_units_max: Count = 100_000
    """Units in one user's memory; if there are more, the least important are forgotten."""
    memory_summarise_from: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Number of units without a summary from which a session or collection is summarised automatically; 0: only on
    request."""
    memory_summary_units_max: Annotated[int, Meta(ge=2, le=1_000)] = 60
    """The most units that one summary covers."""
    memory_summary_tokens_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 2_000
    """About how many tokens of units one summary covers at most."""
    memory_forget_share: Annotated[float, Meta(gt=0, le=1)] = 0.1
    """The share of the removable units that is forgotten when there are more than `memory_units_max`."""
    memories: dict[str, ExternalSettings] = {}
    """External memories that searches may name: tables `[memories.NAME]`."""
    recalls_max: Count = 20
    """Memory queries of one turn."""
    recall_s: Seconds = 10.0
    """The longest time for one memory query of a turn."""

    busy: Literal["reject", "queue"] = "reject"
    """What happens to a message while the session answers another one: it is rejected, or it waits."""
    queue_s: Seconds = 30.0
    """How long a message may wait."""
    queue_max: Count = 64
    """How many messages may wait for one session."""
    session_cache_max: Count = 10_000
    """Sessions cached in RAM."""
    actions_max: Count = 1_000
    """Actions of one turn."""
    model_calls_max: Count = 50
    """Calls of language models of one turn."""
    output_chars_max: Count = 100_000
    """Characters of output of one turn."""
    turn_s: Seconds = 120.0
    """Seconds of one turn."""
    stop_delay_s: Delay = 0.0
    """Seconds for which a server still takes requests after SIGTERM, while `/ready` answers 503 and connections end
    with their next response, so that a proxy notices in time."""

    timezone: str = "UTC"
    """The time zone of sessions, users and scripts without one, as a name of the IANA database."""
    timer_concurrency: Count = 16
    """Timers that fire at the same time; messages of users are answered meanwhile."""
    catch_up_s: Seconds = 3_600.0
    """The greatest delay of a reminder, such as after a stop of the server; an older one is missed."""
    hold_late_timers: bool = False
    """Whether timers that are already due when the server starts are held, as after the restoration of a backup."""

    body_bytes_max: Count = 1_000_000
    """Size of a request's body."""
    import_bytes_max: Count = 50_000_000
    """Size of a document that is imported."""
    connections_max: Annotated[int, Meta(ge=64, le=1_000_000)] = 8_192
    """TCP connections in total; beyond, idle ones are closed."""
    address_connections_max: Count = 4_096
    """TCP connections from one address; beyond, its idle ones are closed."""
    requests_max: Count = 4_000
    """Open requests in total, including streams; beyond: 503 `SERVER_BUSY`."""
    client_requests_max: Count = 2_000
    """Open requests of one key, and of one address; beyond: 429 `REQUESTS_FULL`."""
    receive_s: Annotated[float, Meta(gt=0, le=30)] = 30.0
    """How long an idle connection stays open, and how long the headers and the body of a request may take; then 408
    `REQUEST_TIMEOUT`."""
    trusted_proxies: list[str] = field(default_factory=lambda: ["127.0.0.1", "::1"])
    """Addresses and networks of proxies whose `X-Forwarded-For` names the client."""
    streams_max: Count = 2_000
    """Open streams in total; more are refused with 429 `STREAMS_FULL`, as with the two settings that follow."""
    client_streams_max: Count = 1_000
    """Open streams of one key, and of one address."""
    session_streams_max: Count = 10
    """Open streams of one session."""
    stream_s: Seconds = 3_600.0
    """How long a stream lasts."""
    stream_write_s: Seconds = 30.0
    """How long a client of a stream may take to read."""
    keep_alive_s: Seconds = 15.0
    """How often a stream without news sends a comment; the chat page takes one for lost after 60 s without."""
    requests_per_minute: Annotated[int, Meta(ge=0, le=10_000_000)] | None = None
    """Requests of a key in a minute; beyond: 429 `RATE_LIMITED`. 0: no limit. The default is 6000 for each key, and no
    limit without keys. A request without a valid key counts for its address; `/health` and `/ready` do not count."""
    participant_requests_per_minute: Count = 120
    """Requests of a participant's token in a minute; beyond: 429 `RATE_LIMITED`."""
    participant_token_s: Annotated[int, Meta(ge=60, le=86_400)] = 3_600
    """How long a participant's token is valid. A page renews it meanwhile."""
    web_push_contact: str = ""
    """`mailto:…` or `https://…`: how the makers of browsers reach the operator of this server. With it, the chat page
    offers reminders for when the session speaks by itself while the page is closed."""
    link_entries_per_minute: Count = 600
    """Participants of a link that are admitted or come back in a minute; beyond: 429 `RATE_LIMITED`."""
    address_entries_per_minute: Count = 120
    """Participants of one address that are admitted or come back in a minute."""
    cors_origins: list[str] = []
    """Origins of pages that may use the API and show the chat page: `["https://app.example.com"]`."""

    auth_jwt_algorithm: Literal["HS256", "RS256", "EdDSA"] | None = None
    """The algorithm that signs the tokens of your own login."""
    auth_jwt_key: Secret | None = None
    """The secret (HS256) or the public key."""
    auth_jwt_key_file: Path | None = None
    """A file with the secret or the public key, instead of `auth_jwt_key`."""
    auth_jwt_issuer: str | None = None
    """The required value of `iss`."""
    auth_jwt_audience: str | None = None
    """The required value of `aud`."""
    auth_jwt_leeway_s: Annotated[float, Meta(ge=0, le=600)] = 30.0
    """How far clocks may differ."""
    auth_jwt_tenant_claim: str = ""
    """The claim with the tenant, which a token must then have; empty: all tokens belong to the tenant `default`."""
    auth_jwt_roles_claim: str = "roles"
    """The claim with the roles."""
    auth_jwt_user_claim: str = "sub"
    """The claim with the user, which a token must then have; empty: no token is bound to a user."""

    webhooks_max: Count = 20
    """Webhooks of a tenant."""
    webhooks_http: bool = False
    """Whether webhooks may use `http` beyond this machine."""
    webhook_private_targets: list[str] = []
    """Permitted private targets: networks, addresses and hosts, with a port or without, such as `["10.0.0.0/8",
    "127.0.0.1:9000", "hooks.internal"]`. A server without keys may also send to this machine; addresses of cloud
    metadata are always refused."""
    webhook_timeout_s: Seconds = 10.0
    """The longest time of an attempt."""
    webhook_attempts: Count = 10
    """The number of attempts."""
    webhook_retry_s: Seconds = 5.0
    """The first wait between attempts; each wait is four times the one before, at most 6 hours."""
    webhook_concurrency: Count = 32
    """Deliveries at a time; at most half of them to one webhook."""
    webhook_pending_max: Count = 10_000
    """Deliveries that may wait for one webhook; beyond, the oldest fail permanently."""
    webhook_keep_s: Seconds = 604_800.0
    """How long finished deliveries are stored."""

    tools: Literal["live", "examples"] | None = None
    """Whether tools are called, or answered with their declared `example`. The default is `examples` with the models
    `offline` and `scripted:FILE`, else `live`."""
    tool_calls_max: Count = 20
    """Calls of tools of one turn."""
    tool_result_bytes_max: Count = 65_536
    """Size of a tool's answer."""
    tools_http: bool = False
    """Whether tools may use `http` beyond this machine."""
    tool_private_targets: list[str] = []
    """Permitted private targets of tools, as in `webhook_private_targets`. Without them, no tool reaches this machine
    or a private network."""
    tool_secrets: dict[str, ToolSecret] = {}
    """Secrets for headers of tools: tables `[tool_secrets.NAME]`."""
    tool_providers: dict[str, ToolProvider] = {}
    """Tools that are functions of installed packages, or of MCP servers: tables `[tool_providers.TOOL]`."""
    mcp_servers: dict[str, McpServer] = {}
    """MCP servers: tables `[mcp_servers.NAME]`. They need the extra `mcp`."""

    snapshot_every_h: Annotated[float, Meta(ge=0, le=8_760)] = 0.0
    """Hours between scheduled snapshots of each tenant; 0: only on request."""
    snapshot_folder: Path | None = None
    """Where snapshots are written; the default is `snapshots` in `data`."""
    snapshot_keep: Annotated[int, Meta(ge=1, le=10_000)] = 7
    """How many snapshots of a tenant are stored."""
    dashboard_keep: Annotated[int, Meta(ge=1, le=10_000)] = 30
    """How many files of a scheduled dashboard are stored."""
    snapshot_masked: bool = True
    """Whether snapshots omit messages and personal values."""
    snapshot_storage_version: StorageVersion = OWN
    """The oldest DuckDB that must read snapshots; `v1.0.0` for tools that embed 1.x."""
    backup_every_h: Annotated[float, Meta(ge=0, le=8_760)] = 0.0
    """Hours between scheduled backups of the database; 0: only on request."""
    backup_folder: Path | None = None
    """Where backups are written, best on another disk; the default is `backups` in `data`."""
    backup_keep: Annotated[int, Meta(ge=1, le=10_000)] = 7
    """How many backups are stored; the oldest are deleted."""
    retention: list[Policy] = []
    """Policies that redact or delete sessions: tables `[[retention]]`."""
    retention_every_h: Annotated[float, Meta(ge=0, le=8_760)] = 24.0
    """Hours between retention runs, the first a minute after the start of a server; 0: only on request."""

    def __post_init__(self) -> None:
        for name in self.models:
            if name in {"", OFFLINE} or ":" in name:
                raise ValueError(f"`models` cannot contain the name {name!r}; choose a plain word")
        for origin in self.cors_origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin!r} of `cors_origins` is not an origin such as https://app.example.com")
        for proxy in self.trusted_proxies:
            try:
                ip_network(proxy)
            except ValueError as error:
                raise ValueError(
                    f"{proxy!r} of `trusted_proxies` is not an address or network such as 10.0.0.0/8: {error}"
                ) from None
        for name in ("webhook_private_targets", "tool_private_targets"):
            for target in getattr(self, name):
                try:
                    read_target(target)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
        if self.timezone != "UTC" and zone_of(self.timezone) is None:
            raise ValueError(f"timezone: there is no time zone {self.timezone!r}")
        if self.web_push_contact and not self.web_push_contact.startswith(("mailto:", "https://")):
            raise ValueError("web_push_contact: it begins with mailto: or https://")
        check_policies(self.retention)
        _ = self.own_model  # validates that its settings are consistent
        _ = parse_name(self.embedder), self.embedder_endpoint
        _ = self.contexts, self.database_url

    @property
    def own_model(self) -> ModelSettings | None:
        """The server's own endpoint; None if it is not configured."""
        names = [name.removeprefix(_OF_MODEL) for name in self.__struct_fields__ if name.startswith(_OF_MODEL)]
        values = {name: getattr(self, _OF_MODEL + name) for name in names if name in ModelSettings.__struct_fields__}
        if not (self.model.startswith(OPENAI) or self.model_url or self.model_key):
            return None
        return ModelSettings(**{name: value for name, value in values.items() if value is not None})

    @property
    def address(self) -> str:
        """The address of the server."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def keys_in(self) -> Path:
        """The folder of the key files."""
        return self.key_folder or self.data

    @property
    def database_url(self) -> str | None:
        """The address of the PostgreSQL database, or None for the database file."""
        if self.database is None:
            return None
        if not self.database.reveal().startswith(("postgresql://", "postgres://")):
            raise ValueError("database: the address of a PostgreSQL database begins with postgresql://")
        if self.backup_every_h:
            raise ValueError("backup_every_h: back up a PostgreSQL database with its own tools, such as pg_dump")
        return self.database.reveal()

    @property
    def calls_tools(self) -> bool:
        """Whether tools are called; otherwise their examples are used."""
        if self.tools is None:
            return not self.model.startswith((OFFLINE, SCRIPTED))
        return self.tools == "live"

    @property
    def embedder_endpoint(self) -> ModelSettings | None:
        """The endpoint of `openai:NAME` embedders: their own, else that of models; None if neither is configured."""
        if not (self.embedder_url or self.embedder_key):
            return self.own_model
        try:
            return ModelSettings(url=self.embedder_url or OPENAI_URL, key=self.embedder_key or Secret(""))
        except ValueError as error:
            raise ValueError(f"embedder_url, embedder_key: {error}") from None

    @property
    def contexts(self) -> Contexts:
        """The context strategies; `context` is the default if neither script nor session names one."""
        return Contexts(default=None if self.context is None else read_settings(self.context))

    @property
    def prompts_folder(self) -> Path:
        """The folder of the operator's own prompts; it may be missing."""
        return self.prompts or self.scripts / "prompts"

    @cached_property
    def limits(self) -> Limits:
        """The limits of one turn."""
        own = {name: getattr(self, name) for name in Limits.__struct_fields__ if name in self.__struct_fields__}
        turn, session = self.budgets.bounds("turn"), self.budgets.bounds("session")
        return Limits(**own, turn_budget=turn, session_budget=session)


class SettingsInvalid(ValueError):
    """A setting is invalid; the message names it and its origin."""
