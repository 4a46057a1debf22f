"""``cuebook users``: the global variables of a user, everything at once, and nothing any more."""

import sys
from pathlib import Path
from typing import Any

import click

from api.cli.compact import COMPACT_TIMEOUT_S
from api.cli.options import settings_of, with_settings
from api.cli.output import confirm, errors, fail, json_text, print_json, print_table
from api.cli.reach import reach, run
from api.cli.variables import value_of
from api.files import writing_whole
from api.paths import in_path
from scripts.values import Value

COLUMNS = ("name", "type", "source", "lastUpdated", "value")


@click.group()
def users() -> None:
    """Looks at what is recorded of a user, takes it out, and erases it, also while a server runs."""


@users.command("variables", epilog="Example: cuebook users variables ana --set language=de --unset nickname")
@click.argument("user")
@click.option(
    "--set", "given", multiple=True, metavar="NAME=VALUE", help="Set one: JSON, else a text. May be repeated."
)
@click.option("--unset", multiple=True, metavar="NAME", help="Unset one. May be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port")
def variables(
    user: str, given: tuple[str, ...], unset: tuple[str, ...], as_json: bool, config: Path | None, **flags: Any
) -> None:
    """Shows a user's global variables, after setting some of them if that is asked: all, or none.

    The next turn of each of the user's sessions takes them as they are then.
    """
    settings = settings_of(config, **flags)
    changes: dict[str, Value] = dict(value_of(pair, "--set") for pair in given) | dict.fromkeys(unset)

    async def work() -> Any:
        path = f"/api/users/{in_path(user)}/variables"
        async with reach(settings, writing=bool(changes)) as api:
            return await (api.send("PATCH", path, {"variables": changes}) if changes else api.get(path))

    found = run(work())["variables"]
    if as_json:
        print_json(found)
        return
    cells = {name: cell | {"name": name, "value": json_text(cell["value"])} for name, cell in found.items()}
    print_table(COLUMNS, [[cell[column] for column in COLUMNS] for cell in cells.values()])


@users.command("export", epilog="Example: cuebook users export ana -o ana.json")
@click.argument("user")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="A file [standard output].")
@with_settings("data", "host", "port")
def export(user: str, output: Path | None, config: Path | None, **flags: Any) -> None:
    """Takes out everything that is recorded of a user, as one JSON document.

    It holds the global variables with their history, and every session with its messages, variables, events and calls
    of language models; no keys and no settings.
    """
    settings = settings_of(config, **flags)

    async def work() -> None:
        path = f"/api/users/{in_path(user)}/export"
        async with reach(settings) as api:
            if output is None:
                await api.download(path, sys.stdout.buffer)
                return
            with writing_whole(output) as file:
                await api.download(path, file)

    try:
        run(work())
    except OSError as error:
        fail(f"{output}: {error.strerror or 'cannot be written'}")


@users.command("erase", epilog="Example: cuebook users erase ana --yes --compact")
@click.argument("user")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--compact", "compacting", is_flag=True, help="Also rewrite the file, so that no byte is left in it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port")
def erase(user: str, yes: bool, compacting: bool, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Erases everything that is recorded of a user: sessions, messages, variables, events, calls. There is no way back.

    Turns that are under way are taken first. The receipt counts what was erased and does not name the user; the record
    keeps it. Without --compact bytes may still be in the file, until `cuebook compact`.
    """
    settings = settings_of(config, **flags)
    confirm(f"Erase everything of {user!r} for good?", yes=yes)

    async def work() -> Any:
        path = f"/api/users/{in_path(user)}"
        async with reach(settings, writing=True) as api:
            asked = "true" if compacting else None
            return await api.send("DELETE", path, timeout_s=COMPACT_TIMEOUT_S, compact=asked)

    receipt = run(work())
    if as_json:
        print_json(receipt)
    else:
        print_table(("erased", "count"), list(receipt["counts"].items()))
    where = "no byte is left in the files" if receipt["compacted"] else "`cuebook compact` clears the file of its bytes"
    errors.print(f"erased at {receipt['erasedAt']}, receipt {receipt['receiptId']}; {where}")
    sys.exit(1 if compacting and not receipt["compacted"] else 0)
