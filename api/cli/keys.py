"""``cuebook keys``: who may use the API."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from rich.markup import escape

from api.caller import TENANT, Role
from api.cli.options import settings_of, with_settings
from api.cli.output import errors, print_json, print_table
from api.cli.reach import reach, run
from api.paths import in_path

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = ("keyId", "name", "roles", "userId", "createdAt", "expiresAt", "revokedAt", "lastUsedAt")


@click.group()
def keys() -> None:
    """Makes, lists and revokes keys of the API, also while a server runs.

    With the first key a server asks everybody for one; commands on its own machine need none.
    """


def _of_tenant(function: F) -> F:
    return click.option("--tenant", default=TENANT, help=f"Whose data they open [{TENANT}].")(function)


@keys.command("create", epilog="Example: cuebook keys create --name 'our app' --role app")
@click.option("--name", required=True, help="What it is for.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(get_args(Role)),
    help="What it may do; may be given several times [app].",
)
@click.option("--user", help="The one user whose sessions it reaches [all].")
@click.option("--expires", "expires_days", type=click.IntRange(1, 36_500), help="Days until it stops working [never].")
@_of_tenant
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port")
def create_key(
    name: str,
    roles: Sequence[str],
    user: str | None,
    expires_days: int | None,
    tenant: str,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Makes a key and prints it, this once; the record keeps no more than its hash.

    Roles: `app` talks and reads, `author` keeps scripts and sees prompts, `analyst` counts and sees no words, `reader`
    reads them too, `admin` may do everything.
    """
    settings = settings_of(config, **flags)
    body = {"name": name, "roles": list(roles) or ["app"], "userId": user, "expiresDays": expires_days}

    async def work() -> Any:
        async with reach(settings, managing=True, tenant=tenant) as api:
            return await api.send("POST", "/api/keys", body)

    made = run(work())
    if as_json:
        print_json(made)
        return
    click.echo(made["key"])
    roles_told = ", ".join(made["roles"])
    errors.print(f"key {made['keyId']} of tenant {escape(tenant)}: {roles_told}; keep it, it is not shown again")


@keys.command("list", epilog="Example: cuebook keys list --tenant clinic")
@_of_tenant
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port")
def list_keys(tenant: str, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Lists keys, the newest first, also those that were revoked."""
    settings = settings_of(config, **flags)

    async def work() -> list[Any]:
        found: list[Any] = []
        cursor = None
        async with reach(settings, tenant=tenant) as api:
            while True:
                page: Any = await api.get("/api/keys", limit=200, cursor=cursor)
                found += page["data"]
                cursor = page["nextCursor"]
                if cursor is None:
                    return found

    rows = run(work())
    if as_json:
        print_json(rows)
        return
    lines = [row | {"roles": " ".join(row["roles"])} for row in rows]
    print_table(_COLUMNS, [[line[column] for column in _COLUMNS] for line in lines])


@keys.command("revoke", epilog="Example: cuebook keys revoke 3f9a0c1d5e7b2468")
@click.argument("key_id")
@_of_tenant
@with_settings("data", "host", "port")
def revoke_key(key_id: str, tenant: str, config: Path | None, **flags: Any) -> None:
    """Revokes a key at once, whatever is under way with it."""
    settings = settings_of(config, **flags)

    async def work() -> None:
        async with reach(settings, managing=True, tenant=tenant) as api:
            await api.send("DELETE", f"/api/keys/{in_path(key_id)}")

    run(work())
    errors.print(f"key {escape(key_id)} is revoked")
