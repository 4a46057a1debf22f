"""``cuebook users``: show and set global variables of a user, export and erase a user's data."""

import sys
from pathlib import Path
from typing import Any

import click

from api.cli.backend import backend
from api.cli.database import COMPACT_TIMEOUT_S
from api.cli.options import in_json, json_option, skip_confirmation, to_file, value_of, with_settings
from api.cli.output import confirm, end, errors, file_errors, json_text, print_json, print_rows, print_table
from api.local_files.atomic_files import writing_whole
from api.schemas.ids import in_path
from api.settings import Settings
from scripts.expressions.values import Value

COLUMNS = ("name", "type", "source", "lastUpdated", "value")


@click.group()
def users() -> None:
    """Show, export or erase everything that is recorded about a user, also while a server runs."""


def _print_variables(found: dict[str, Any]) -> None:
    print_rows(COLUMNS, [cell | {"name": name, "value": json_text(cell["value"])} for name, cell in found.items()])


@users.command("variables", epilog="Example: cuebook users variables ana --set language=de --unset nickname")
@click.argument("user")
@click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Set a variable: JSON, else a text. May be repeated."
)
@click.option("--unset", multiple=True, metavar="NAME", help="Unset a variable. May be repeated.")
@json_option(_print_variables)
@with_settings("data")
async def variables(settings: Settings, user: str, pairs: tuple[str, ...], unset: tuple[str, ...]) -> Any:
    """Show the global variables of a user, after the changes of --set and --unset, if any.

    Either all changes are made or none. Each session of the user sees the new values from its next turn on.
    """
    changes: dict[str, Value] = dict(value_of(pair, "--set") for pair in pairs) | dict.fromkeys(unset)
    path = f"/api/users/{in_path(user)}/variables"
    async with backend(settings, writing=bool(changes)) as api:
        answer = await (api.send("PATCH", path, {"variables": changes}) if changes else api.get(path))
    return answer["variables"]


@users.command("export", epilog="Example: cuebook users export ana -o ana.json")
@click.argument("user")
@to_file
@with_settings("data")
async def export(settings: Settings, user: str, output: Path | None) -> None:
    """Export everything that is recorded about a user as one JSON document.

    Use it to answer a user's request for their data. The document contains the global variables with their history,
    every session with its messages, variables, events and calls of models and tools, the devices that opened a link,
    and the memory; no API keys and no settings.
    """
    path = f"/api/users/{in_path(user)}/export"
    with file_errors(output):
        async with backend(settings) as api:
            if output is None:
                await api.download(path, sys.stdout.buffer)
                return
            with writing_whole(output) as file:
                await api.download(path, file)


@users.command("erase", epilog="Example: cuebook users erase ana --yes --compact")
@click.argument("user")
@skip_confirmation
@click.option("--compact", "compacting", is_flag=True, help="Also rewrite the file, so that no deleted byte remains.")
@in_json
@with_settings("data")
async def erase(settings: Settings, user: str, yes: bool, compacting: bool, as_json: bool) -> None:
    """Erase everything that is recorded about a user: sessions, messages, variables, events, calls, memory.

    Use it to answer a user's request for erasure. This cannot be undone. Turns in progress finish first. The receipt
    counts the erased rows and does not name the user; the database stores it. Without --compact, erased bytes may
    remain in the file until `cuebook compact`.
    """
    confirm(f"Permanently erase all data of {user!r}?", yes=yes)
    path, compact = f"/api/users/{in_path(user)}", compacting or None
    async with backend(settings, writing=True) as api:
        receipt: Any = await api.send("DELETE", path, timeout_s=COMPACT_TIMEOUT_S, compact=compact)
    if as_json:
        print_json(receipt)
    else:
        print_table(("erased", "count"), list(receipt["counts"].items()))
    rest = "run `cuebook compact` to remove its bytes from the file"
    if receipt["compacted"]:
        rest = "no erased byte remains in the file; older backups and exports have the user until you delete them"
    errors.print(f"erased at {receipt['erasedAt']}, receipt {receipt['receiptId']}; {rest}")
    end(1 if compacting and not receipt["compacted"] else 0)
