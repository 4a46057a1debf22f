"""The page of all settings: names, types, defaults and meanings, from the structs that read them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec import inspect as types
from texts import field_texts

from api.cli.serve import serve
from api.settings import Budgets, ExternalSettings, McpServer, Settings, ToolProvider, ToolSecret
from runtime.models.hosted.settings import ModelSettings, Secret
from store.interface.retention_rows import Policy

ROOT = Path(__file__).parents[2]
_MODEL = "model_"
_NONE = "–"

SECTIONS = (
    ("Server", "data", ""),
    ("Language models", "model", "[Connect a language model](../how-to/language-models.md) shows how to use these."),
    (
        "Memory",
        "embedder",
        "[Choose an embedding model](../how-to/embedders.md) and [Use memory in applications](../how-to/memory.md) show"
        " how to use these.",
    ),
    ("Sessions and turns", "busy", ""),
    (
        "Requests and connections",
        "body_bytes_max",
        "[Deploy a server](../how-to/deploy.md#many-connections) explains the limits.",
    ),
    (
        "Tokens (JWT)",
        "auth_jwt_algorithm",
        "[Authentication](../how-to/authentication.md#accept-tokens-of-your-own-login) shows how to use these.",
    ),
    ("Webhooks", "webhooks_max", "[Send events to a URL](../how-to/webhooks.md) shows how to use these."),
    ("Tools", "tools", "[Call services and functions](../how-to/tools.md) shows how to use these."),
    (
        "Snapshots and retention",
        "snapshot_every_h",
        "[Back up and restore](../how-to/backups.md) and [Limit how long data is stored](../how-to/retention.md) show"
        " how to use these.",
    ),
)
"""Title, first setting, and what stands above the table. A section ends where the next one begins."""

TABLES: tuple[tuple[str, type[Struct], str], ...] = (
    ("`[models.NAME]`", ModelSettings, "A model that `model`, `model_fallback` and scripts name."),
    (
        "`[budgets]`",
        Budgets,
        "[Budgets](../how-to/language-models.md#budgets): the variable of `day_cost` is `CUEBOOK_BUDGETS_DAY_COST`.",
    ),
    ("`[tool_secrets.NAME]`", ToolSecret, "See [Call services](../how-to/tools.md#connect-it-to-the-service)."),
    ("`[tool_providers.TOOL]`", ToolProvider, "See [Tools in Python](../how-to/tools.md#write-a-tool-in-python)."),
    ("`[mcp_servers.NAME]`", McpServer, "See [Use an MCP server](../how-to/tools.md#use-an-mcp-server)."),
    ("`[memories.NAME]`", ExternalSettings, "See [External memories](../how-to/embedders.md#external-memories)."),
    ("`[[retention]]`", Policy, "See [Limit how long data is stored](../how-to/retention.md)."),
)
"""The tables of `cuebook.toml`, each with the struct of its keys."""


_INTRO = """\
# Settings

After reading this page you know all settings, their defaults and their meaning.

Cuebook reads settings from `cuebook.toml` in the working folder (or `--config`), then from environment variables, then
from flags; later ones have priority. The variable of a setting is its name in capitals after `CUEBOOK_`:
`CUEBOOK_LOG_LEVEL`. In a variable, the items of a list are separated by commas. Tables other than `[budgets]` can only
be set in the file. A relative path in the file is relative to the folder of the file. An unknown name is an error.

Times are in seconds and sizes in bytes, unless the name says otherwise: `_h` are hours.

"""


def settings() -> str:
    """Return the page of all settings by subject, and of the keys of their tables."""
    names = list(Settings.__struct_fields__)
    starts = [names.index(first) for _, first, _ in SECTIONS]
    parts = [
        *_INTRO.splitlines(),
    ]
    for (title, _, about), start, end in zip(SECTIONS, starts, [*starts[1:], len(names)], strict=True):
        parts += [f"## {title}", "", *([about, ""] if about else []), *_table(Settings, names[start:end]), ""]
    for title, struct, about in TABLES:
        parts += [f"## {title}", "", about, "", *_table(struct, struct.__struct_fields__), ""]
    return "\n".join(parts)


def _table(struct: type[Struct], names: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a table of settings. Raises LookupError for a setting without a meaning."""
    fields, meanings = {each.name: each for each in _fields(struct)}, field_texts(struct)
    yield "| setting | type | default | meaning |"
    yield "|---|---|---|---|"
    flags = {each.name: each.opts[-1] for each in serve.params}
    for name in names:
        field, meaning = fields[name], meanings.get(name)
        if struct is Settings and meaning is None:  # the server's own endpoint has the keys of every other
            of_model = name.removeprefix(_MODEL)
            field = next(each for each in _fields(ModelSettings) if each.name == of_model)
            meaning = field_texts(ModelSettings)[of_model]
        if meaning is None:
            raise LookupError(f"{struct.__name__}.{name} has no docstring")
        flag = f" (`{flags[name]}`)" if struct is Settings and name in flags else ""
        yield f"| `{name}`{flag} | {_type(field.type)} | {_default(field)} | {meaning} |"


def _fields(struct: type[Struct]) -> tuple[types.Field, ...]:
    described = types.type_info(struct)
    return described.fields if isinstance(described, types.StructType) else ()


def _type(of: types.Type) -> str:
    """Return a type in words, with its limits."""
    match of:
        case types.UnionType(types=several):
            return " or ".join(_type(each) for each in several if not isinstance(each, types.NoneType))
        case types.LiteralType(values=values):
            return ", ".join(f"`{value}`" for value in values)
        case types.IntType():
            return f"integer{_limits(of)}"
        case types.FloatType():
            return f"number{_limits(of)}"
        case types.BoolType():
            return "`true`, `false`"
        case types.ListType(item_type=item):
            return "tables" if isinstance(item, types.StructType) else f"list of {_type(item)}s"
        case types.DictType(value_type=value):
            return "tables" if isinstance(value, types.StructType) else "table"
        case types.StructType():
            return "table"
        case types.CustomType(cls=cls):
            return {Path: "path", Secret: "secret"}[cls]
        case _:
            return "text"


def _limits(of: types.IntType | types.FloatType) -> str:
    least = f"at least {of.ge:g}" if of.ge is not None else f"more than {of.gt:g}" if of.gt is not None else ""
    if of.le is None:
        return f", {least}" if least else ""
    return f", {of.ge:g} to {of.le:.0f}" if of.ge is not None else f", {least}, at most {of.le:.0f}"


def _default(field: types.Field) -> str:
    if field.required:
        return "required"
    value: Any = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    match value:
        case None | "" | [] | {} | Budgets():
            return _NONE
        case Secret():
            return _NONE
        case bool():
            return f"`{str(value).lower()}`"
        case Path():
            return f"`{value.relative_to(ROOT) if value.is_absolute() else value}`"
        case list():
            return ", ".join(f"`{each}`" for each in value)
        case int() | float():
            return f"{value:.10g}"
        case _:
            return f"`{value}`"
