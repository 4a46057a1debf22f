"""The page of the public package `cuebook`: signatures and docstrings, read from the source."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from texts import one_line

import cuebook
from api.client.analytics import Analytics
from api.client.memory import Memory
from api.client.session_requests import Sessions
from api.memory.user_memory import UserMemory
from api.settings import Settings

GROUPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Clients",
        "Reach a server over HTTP.",
        ("Client", "SyncClient", "RetryPolicy", "StreamEvent", "turn_of", "CuebookError"),
    ),
    (
        "Your own process",
        "Run Cuebook without a server, or as a part of one.",
        ("open_runtime", "create_app", "Settings", "SettingsInvalid"),
    ),
    (
        "Histories",
        "Add a stored conversation to a program of yours.",
        ("with_history", "InMemoryStore", "Conversation", "AgentHistory", "Handlers", "ModelFailed"),
    ),
    (
        "Memory",
        "Use the memory of one user without a server.",
        ("open_memory", "InvalidMemoryRequest", "UnitIdExists", "FilterInvalid", "WorkFailed"),
    ),
    ("Tools", "Write a function that scripts call.", ("Tool",)),
    (
        "Own actions",
        "Write a type of action of your own.",
        ("action", "OwnAction", "ActionTurn", "Template", "Expression", "Variable"),
    ),
    ("Webhooks", "Check that a delivery comes from your server.", ("verify_webhook", "InvalidSignature")),
)
"""Headings with the public names that stand below them."""

PARTS: tuple[tuple[str, str, type, str], ...] = (
    (
        "Sessions of a client",
        "What `client.sessions` does: asynchronous with `Client` and `open_runtime`, synchronous with `SyncClient`.",
        Sessions,
        "sessions.",
    ),
    ("Memory of a client", "What `client.memory` does, likewise.", Memory, "memory."),
    ("Analytics of a client", "What `client.analytics` does, likewise.", Analytics, "analytics."),
    ("The memory of one user", "What `open_memory` gives: `with open_memory(…) as memory`.", UserMemory, ""),
)
"""Classes whose names users do not need: heading, text, class, and the prefix of its methods."""

_WIDTH = 100


_INTRO = """\
# Python

After reading this page you know every public class and function with its arguments, results and errors. [Use Cuebook
from Python](../how-to/python.md) shows how to use them.

Import these names from `cuebook`, and nothing from the other packages, which may change with every version. Times are
in seconds, datetimes have a time zone, and arguments after `*` are given by name. Types with the names of [objects of
the HTTP API](http-objects.md) have the fields that are described there, in snake_case.

"""


def python() -> str:
    """Return the page of the public names. Raises LookupError if one is in no group."""
    grouped = [name for _, _, names in GROUPS for name in names]
    if missing := set(cuebook.__all__) ^ set(grouped):
        raise LookupError(f"GROUPS and cuebook.__all__ differ by {sorted(missing)}")
    parts = [
        *_INTRO.splitlines(),
        "| name | purpose |",
        "|---|---|",
        *(f"| [`{name}`](#{name.lower()}) | {_purpose(name)} |" for name in cuebook.__all__),
        "",
    ]
    for title, about, names in GROUPS:
        parts += [f"## {title}", "", about, ""]
        for name in names:
            parts += [f"### {name}", "", *_public(name)]
    for title, about, found, prefix in PARTS:
        parts += [f"## {title}", "", about, "", _text(_source(found)), "", *_members(found, prefix)]
    return "\n".join(parts)


def _purpose(name: str) -> str:
    """Return the first sentence about a name."""
    text = one_line(_text(_source(getattr(cuebook, name))))
    return text.split(". ")[0].split(": `async with")[0].split(": `with")[0].rstrip(".")


def _public(name: str) -> Iterator[str]:
    """Yield the lines about a public name: its signature, its text, its fields and its methods."""
    found = getattr(cuebook, name)
    source = _source(found)
    if isinstance(source, griffe.Function):
        yield from _signature(source, name, found)
    elif "__init__" in source.members:
        yield from _signature(source.functions["__init__"], name, found)
    yield from (_text(source), "")
    if found is Settings:
        yield from ("[Settings](settings.md) describes its fields.", "")
    elif isinstance(source, griffe.Class):
        yield from _members(found)


def _source(found: Any) -> griffe.Class | griffe.Function:
    """Return a class or function as its source has it. Raises TypeError for anything else."""
    file = Path(inspect.getfile(inspect.unwrap(found)))
    member = griffe.visit(file.stem, filepath=file, code=file.read_text("utf-8"))[found.__name__]
    if not isinstance(member, griffe.Class | griffe.Function):
        raise TypeError(f"{found.__name__} is neither a class nor a function")
    return member


def _members(found: type, prefix: str = "") -> Iterator[str]:
    """Yield the lines about the public fields, properties and methods of a class and of those that it extends."""
    extended = [each for each in inspect.getmro(found) if each.__module__.startswith(("api.", "runtime."))]
    sources = [_source(each) for each in reversed(extended)]
    members = {name: each for source in sources for name, each in source.members.items() if not name.startswith("_")}
    fields = [each for each in members.values() if isinstance(each, griffe.Attribute) and _is_shown(each)]
    if fields:
        yield from ("| field | type | meaning |", "|---|---|---|")
        yield from (_field(each) for each in fields)
        yield ""
    for name, each in members.items():
        if isinstance(each, griffe.Function):
            yield from (f"#### {prefix}{name}", "", *_signature(each, name, found), _text(each), "")


def _is_shown(each: griffe.Attribute) -> bool:
    """Return whether a field belongs to a struct or is a property, rather than set by `__init__`."""
    return "property" in each.labels or (each.annotation is not None and "instance-attribute" in each.labels)


def _field(each: griffe.Attribute) -> str:
    default = f", default `{each.value}`" if each.value is not None else ""
    meaning = one_line(each.docstring.value) if each.docstring else ""
    return f"| `{each.name}` | `{one_line(str(each.annotation))}`{default} | {meaning} |"


def _signature(function: griffe.Function, name: str, found: Any) -> Iterator[str]:
    """Yield the signature of a function, or of a method of a class, in one line or with a line for each argument."""
    arguments = []
    for each in function.parameters:
        if each.name == "self":
            continue
        if each.kind is griffe.ParameterKind.keyword_only and "*" not in arguments:
            arguments.append("*")
        annotation = "" if each.annotation is None else f": {each.annotation}"
        default = "" if each.default is None else f" = {_value(str(each.default), found)}"
        arguments.append(f"{each.name}{annotation}{default}")
    before, after = _around(function, name)
    line = f"{before}{name}({', '.join(arguments)}){after}"
    if len(line) > _WIDTH:
        line = "\n".join((f"{before}{name}(", *(f"    {each}," for each in arguments), f"){after}"))
    yield from ("~~~python", line, "~~~", "")


def _value(default: str, found: Any) -> str:
    """Return a default as written, or the text or number that a constant stands for."""
    value = vars(sys.modules[found.__module__]).get(default)
    return repr(value) if isinstance(value, str | int | float) else "…" if default.startswith("_") else default


def _around(function: griffe.Function, name: str) -> tuple[str, str]:
    """Return what stands before the name of a function and after its arguments."""
    decorators = {str(each.value) for each in function.decorators}
    is_async = "async" in function.labels
    returned = str(function.returns)
    if decorators & {"contextmanager", "asynccontextmanager"}:
        given = returned.removeprefix("Async").removeprefix("Iterator[").removesuffix("]")
        return ("async with " if is_async else "with "), f" as {given}"
    if function.name == "__init__":
        return "", ""
    if is_async and returned.startswith("AsyncIterator"):
        return "async for … in ", f": {returned}"
    return ("await " if is_async else ""), f" -> {returned}"


def _text(source: griffe.Object) -> str:
    """Return a docstring in Markdown; ours mark code with one or two backticks."""
    return "" if source.docstring is None else source.docstring.value.replace("``", "`")
