"""``cuebook keys`` and ``cuebook links``: who may use a server, with an API key or through a link."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, get_args

import click
from rich.markup import escape

from api.cli.backend import backend, read_answer
from api.cli.options import Command, in_json, json_option, page_options, value_of, with_settings
from api.cli.output import errors, print_json, print_page
from api.console.serve import CHATS
from api.schemas.ids import TENANT, in_path
from api.schemas.keys import Role
from api.schemas.timestamps import utc_now, utc_text
from api.settings import Settings

KEY_COLUMNS = ("keyId", "name", "roles", "userId", "createdAt", "expiresAt", "revokedAt", "lastUsedAt")
LINK_COLUMNS = (
    "linkId", "scriptId", "version", "users", "resumes", "sessionsMax", "createdAt", "expiresAt", "revokedAt",
)  # fmt: skip


def _of_tenant(what: str) -> Callable[[Command], Command]:
    return click.option("--tenant", default=TENANT, help=f"The tenant of the {what} [{TENANT}].")


async def _revoke(settings: Settings, tenant: str, what: str, id_: str) -> None:
    async with backend(settings, managing=True, tenant=tenant) as api:
        await api.send("DELETE", f"/api/{what}s/{in_path(id_)}")
    errors.print(f"{what} {escape(id_)} is revoked")


@click.group()
def keys() -> None:
    """Create, list and revoke API keys, also while a server runs.

    As soon as there is one key, the server requires a key for every request. Commands on the server's own machine
    need none.
    """


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
@_of_tenant("keys")
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


def _key_row(key: Any) -> dict[str, Any]:
    return {**key, "roles": " ".join(key["roles"])}


@keys.command("list", epilog="Example: cuebook keys list --tenant clinic")
@_of_tenant("keys")
@page_options("keys")
@json_option(lambda page: print_page(page, KEY_COLUMNS, _key_row))
@with_settings("data")
async def list_keys(settings: Settings, tenant: str, **query: Any) -> Any:
    """List the keys of a tenant, newest first, including revoked ones."""
    return await read_answer(settings, "/api/keys", tenant=tenant, **query)


@keys.command("revoke", epilog="Example: cuebook keys revoke 3f9a0c1d5e7b2468")
@click.argument("key_id")
@_of_tenant("keys")
@with_settings("data")
async def revoke_key(settings: Settings, key_id: str, tenant: str) -> None:
    """Revoke a key immediately, even if requests with it are in progress."""
    await _revoke(settings, tenant, "key", key_id)


@click.group()
def links() -> None:
    """Create, list and revoke links that open a script in browsers, also while a server runs.

    With a link, anybody can begin a session of its script without a key.
    """


@links.command("create", epilog="Example: cuebook links create visit --expires 30")
@click.argument("script")
@click.option("--version", type=click.IntRange(1), help="The version that sessions run [the published one].")
@click.option("--name", "linkId", help="A name for the address of a public script [a random id].")
@click.option("--named", "users", flag_value="named", default=None, help="Participants give a code [anonymous].")
@click.option("--no-resume", "resumes", flag_value=False, default=None, help="Participants cannot come back.")
@click.option("--max", "sessionsMax", type=click.IntRange(1, 100_000), help="The most participants [1000].")
@click.option("--expires", type=click.IntRange(1, 36_500), help="Days in which it admits participants [all].")
@click.option("--access", "accessDays", type=click.IntRange(1, 3_660), help="Days that each has access [90].")
@click.option("--locale", help="The language of the sessions [that of the browser].")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="An initial variable; may be repeated.")
@_of_tenant("links")
@in_json
@with_settings("data")
async def create_link(
    settings: Settings,
    script: str,
    variables: Sequence[str],
    expires: int | None,
    tenant: str,
    as_json: bool,
    **body: Any,
) -> None:
    """Create a link to a script and print its id.

    The id of a link is what gives access; a name that can be guessed is for scripts that everybody may try.
    """
    body = {"scriptId": script} | {name: value for name, value in body.items() if value is not None}
    body["initialVariables"] = dict(value_of(each, "--var") for each in variables)
    if expires is not None:
        body["expiresAt"] = utc_text(utc_now() + timedelta(days=expires))
    async with backend(settings, managing=True, tenant=tenant) as api:
        created = await api.send("POST", "/api/links", body)
        address = api.address if api.is_served else settings.address
    if as_json:
        print_json(created)
        return
    click.echo(created["linkId"])
    errors.print(f"link to {escape(created['scriptId'])} of tenant {escape(tenant)}, {created['users']}")
    page = f"{address}/{CHATS}/{in_path(created['linkId'])}"
    errors.print(f"people open {escape(page)}, on the address by which they reach the server", soft_wrap=True)


@links.command("list", epilog="Example: cuebook links list --json")
@_of_tenant("links")
@page_options("links")
@json_option(lambda page: print_page(page, LINK_COLUMNS))
@with_settings("data")
async def list_links(settings: Settings, tenant: str, **query: Any) -> Any:
    """List the links of a tenant, newest first, including revoked ones."""
    return await read_answer(settings, "/api/links", tenant=tenant, **query)


@links.command("revoke", epilog="Example: cuebook links revoke 3f9a0c1d5e7b24683f9a0c1d")
@click.argument("link_id")
@_of_tenant("links")
@with_settings("data")
async def revoke_link(settings: Settings, link_id: str, tenant: str) -> None:
    """Revoke a link: nobody comes through it any more, and its participants lose access at once."""
    await _revoke(settings, tenant, "link", link_id)
