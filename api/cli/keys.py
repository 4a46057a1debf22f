"""``cuebook keys``: create, list and revoke API keys."""

from collections.abc import Sequence
from typing import Any, get_args

import click
from rich.markup import escape

from api.cli.backend import backend
from api.cli.options import in_json, shown_by, with_settings
from api.cli.output import errors, print_json, print_rows
from api.ids import TENANT, in_path
from api.schemas.keys import Role
from api.settings import Settings

_COLUMNS = ("keyId", "name", "roles", "userId", "createdAt", "expiresAt", "revokedAt", "lastUsedAt")


@click.group()
def keys() -> None:
    """Create, list and revoke API keys, also while a server runs.

    As soon as there is one key, the server requires a key for every request. Commands on the server's own machine
    need none.
    """


_of_tenant = click.option("--tenant", default=TENANT, help=f"The tenant of the keys [{TENANT}].")


@keys.command("create", epilog="Example: cuebook keys create --name 'our app' --role app")
@click.option("--name", required=True, help="What the key is for.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(get_args(Role)),
    help="What the key may do; may be repeated [app].",
)
@click.option("--user", "userId", help="Restrict the key to the sessions of this user [all users].")
@click.option("--expires", "expiresDays", type=click.IntRange(1, 36_500), help="Days until the key expires [never].")
@_of_tenant
@in_json
@with_settings("data")
async def create_key(settings: Settings, roles: Sequence[str], tenant: str, as_json: bool, **body: Any) -> None:
    """Create a key and print it once; the database stores only its hash.

    Roles: `app` runs sessions and reads them, `author` manages scripts and sees prompts, `analyst` runs analytics
    without seeing any text, `reader` runs analytics and reads texts, `admin` may do everything.
    """
    async with backend(settings, managing=True, tenant=tenant) as api:
        created = await api.send("POST", "/api/keys", body | {"roles": list(roles) or ["app"]})
    if as_json:
        print_json(created)
        return
    click.echo(created["key"])
    role_names = ", ".join(created["roles"])
    errors.print(
        f"key {created['keyId']} of tenant {escape(tenant)}: {role_names}; store it safely, it is not shown again"
    )


def _print_keys(rows: Sequence[Any]) -> None:
    print_rows(_COLUMNS, [row | {"roles": " ".join(row["roles"])} for row in rows])


@keys.command("list", epilog="Example: cuebook keys list --tenant clinic")
@_of_tenant
@shown_by(_print_keys)
@with_settings("data")
async def list_keys(settings: Settings, tenant: str) -> Any:
    """List the keys of a tenant, newest first, including revoked ones."""
    async with backend(settings, tenant=tenant) as api:
        return await api.rows("/api/keys")


@keys.command("revoke", epilog="Example: cuebook keys revoke 3f9a0c1d5e7b2468")
@click.argument("key_id")
@_of_tenant
@with_settings("data")
async def revoke_key(settings: Settings, key_id: str, tenant: str) -> None:
    """Revoke a key immediately, even if requests with it are in progress."""
    async with backend(settings, managing=True, tenant=tenant) as api:
        await api.send("DELETE", f"/api/keys/{in_path(key_id)}")
    errors.print(f"key {escape(key_id)} is revoked")
