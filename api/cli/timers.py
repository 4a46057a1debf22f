"""``cuebook timers``: what sessions will do by themselves."""

from typing import Any

import click

from api.cli.backend import backend, read_answer
from api.cli.options import json_option, page_options, with_settings
from api.cli.output import print_page, print_rows
from api.schemas.ids import in_path
from api.settings import Settings

COLUMNS = ("due", "kind", "sessionId", "userId", "timerId", "status", "attempts")


@click.group()
def timers() -> None:
    """List, fire or arm what sessions will do by themselves, also while a server runs."""


@timers.command("list", epilog="Example: cuebook timers list --session 01920000-0000-7000-8000-000000000000")
@click.option("--session", "sessionId", help="Only the timers of this session.")
@click.option("--user", "userId", help="Only the timers of sessions of this user.")
@click.option("--status", type=click.Choice(["pending", "failed", "held"]), help="Only timers with this status.")
@page_options("timers")
@json_option(lambda page: print_page(page, COLUMNS))
@with_settings("data")
async def list_timers(settings: Settings, **query: Any) -> Any:
    """List timers, the earliest first."""
    return await read_answer(settings, "/api/timers", **query)


@timers.command("fire", epilog="Example: cuebook timers fire SESSION '1:pause:wait:3 days'")
@click.argument("session")
@click.argument("timer")
@json_option(lambda messages: print_rows(("role", "content"), messages))
@with_settings("data")
async def fire(settings: Settings, session: str, timer: str) -> Any:
    """Fire a timer of a session now, also before it is due, and show what the session says."""
    async with backend(settings, writing=True) as api:
        answer = await api.send("POST", f"/api/sessions/{in_path(session)}/timers/fire", {"timerId": timer})
    return answer["messages"]


@timers.command("arm", epilog="Example: cuebook timers arm SESSION")
@click.argument("session")
@json_option(lambda found: print_rows(COLUMNS, found))
@with_settings("data")
async def arm(settings: Settings, session: str) -> Any:
    """Let the timers of a session fire that are held or have failed, and those of a fork or an import.

    The session's next turn does the same.
    """
    async with backend(settings, writing=True) as api:
        answer = await api.send("POST", f"/api/sessions/{in_path(session)}/timers/arm", None)
    return answer["data"]
