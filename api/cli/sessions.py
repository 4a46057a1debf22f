"""``cuebook sessions``: list, search, show, export, import, change and delete sessions."""

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, get_args

import click
import msgspec
from rich.markup import escape

from api.cli.backend import backend, open_for_reading, read_answer, send_each, without_none
from api.cli.options import Command, in_json, json_option, page_options, skip_confirmation, value_of, with_settings
from api.cli.output import confirm, console, fail, failing, print_json, print_page, print_rows, printable
from api.cli.transfers import export_sessions, import_sessions, write_case
from api.schemas.ids import TENANT, in_path
from api.sessions.listing import (
    FilterPairInvalid,
    SearchInvalid,
    metadata_pairs,
    parse_terms,
    search_page,
    session_page,
)
from api.settings import Settings
from runtime.state.state import Status
from scripts.expressions.values import count_text
from store.interface.list_rows import Order, SearchFilter, SessionFilter
from store.store import Store

SESSION_COLUMNS = ("sessionId", "userId", "status", "turn", "messageCount", "updatedAt", "title", "preview")
CALL_COLUMNS = ("turn", "number", "actionId", "purpose", "outcome", "used", "error")
USAGE_COLUMNS = ("model", "inputTokens", "outputTokens", "cost", "latencyMs")
HIT_COLUMNS = ("sessionId", "userId", "timestamp", "number", "role", "text")


@click.group()
def sessions() -> None:
    """List, search, change, export, import and delete sessions, also while a server runs."""


sessions.add_command(export_sessions)
sessions.add_command(write_case)
sessions.add_command(import_sessions)


@sessions.command("list", epilog="Example: cuebook sessions list --user ana --status active")
@click.option("--user", "userId", help="Only sessions of this user.")
@click.option("--status", type=click.Choice(get_args(Status)), help="Only this status.")
@click.option("--script", "scriptId", help="Only sessions that now run the script with this id.")
@click.option("--key-prefix", "keyPrefix", help="Only sessions whose key begins with this text.")
@click.option(
    "--metadata",
    multiple=True,
    metavar="NAME:VALUE",
    help="Only sessions with this metadata; repeatable. A colon in the name is written `\\:`.",
)
@click.option("--sort", type=click.Choice(["activity", "created"]), help="Latest activity first [default] or newest.")
@page_options("sessions")
@json_option(lambda page: print_page(page, SESSION_COLUMNS))
@with_settings("data")
async def list_sessions(settings: Settings, limit: int, cursor: str | None, **query: Any) -> Any:
    """List sessions, those with the latest activity first."""

    async def page_of(store: Store) -> Any:
        condition = SessionFilter(
            user_id=query["userId"],
            status=query["status"],
            script=query["scriptId"],
            key_prefix=query["keyPrefix"],
            metadata=metadata_pairs(query["metadata"]),
        )
        order: Order = query["sort"] or "activity"
        return await session_page(store, TENANT, condition, order=order, limit=limit, cursor=cursor)

    return await _page(settings, page_of, "/api/sessions", query | {"limit": limit, "cursor": cursor})


@sessions.command("search", epilog="Example: cuebook sessions search 'garden \"in the evening\"' --user ana")
@click.argument("words")
@click.option("--user", "userId", help="Only in sessions of this user.")
@click.option("--session", "sessionId", help="Only in this session.")
@click.option("--role", type=click.Choice(["assistant", "user", "system", "tool"]), help="Only messages of this role.")
@click.option("--script", "scriptId", help="Only in sessions that now run the script with this id.")
@page_options("messages", 20)
@json_option(lambda page: print_page(page, HIT_COLUMNS, _hit_row))
@with_settings("data")
async def search_sessions(settings: Settings, words: str, limit: int, cursor: str | None, **query: Any) -> Any:
    """Find messages that contain all WORDS, ignoring case; write a phrase in double quotes."""

    async def page_of(store: Store) -> Any:
        what = SearchFilter(
            words=parse_terms(words),
            role=query["role"],
            user_id=query["userId"],
            session_id=query["sessionId"],
            script=query["scriptId"],
        )
        return await search_page(store, TENANT, what, limit=limit, cursor=cursor)

    more = {"q": words, "limit": limit, "cursor": cursor}
    return await _page(settings, page_of, "/api/sessions/search", query | more)


def _hit_row(hit: Any) -> dict[str, Any]:
    message = hit["message"]
    return {**hit, **message, "text": "".join(piece["text"] for piece in message["excerpt"])}


def _print_stats(stats: Any) -> None:
    for name in ("sessionId", "turns", "messages", "durationSeconds", "meanAnswerSeconds", "meanTurnSeconds"):
        console.print(f"{name} {'' if stats[name] is None else stats[name]}")
    for row in stats["byRole"]:
        mean = f"{row['meanCharacters']:.1f}"
        console.print(f"{row['role']} {row['messages']} messages, {mean} characters on average")
    console.print(f"transcript about {stats['transcriptTokens']['estimate']} tokens")
    models = stats["models"]
    spent = f", cost {models['cost']}" if models["cost"] is not None else ""
    tokens = f"{models['inputTokens']} tokens in, {models['outputTokens']} out"
    console.print(f"models {models['calls']} calls, {tokens}{spent}")


@sessions.command("stats", epilog="Example: cuebook sessions stats 7109d623-8314-4cc4-b6a2-11c8d5b88e58")
@click.argument("session_id")
@json_option(_print_stats)
@with_settings("data")
async def session_stats(settings: Settings, session_id: str) -> Any:
    """Show statistics of a session: messages per role, durations, tokens and cost."""
    return await read_answer(settings, f"/api/sessions/{in_path(session_id)}/stats")


async def _page(
    settings: Settings, page_of: Callable[[Store], Awaitable[Any]], path: str, query: dict[str, Any]
) -> Any:
    """Return a page, read in this process or from the server that holds the database; on failure end the command."""
    with failing(FilterPairInvalid, SearchInvalid):
        async with open_for_reading(settings) as store:
            if store is not None:
                return msgspec.to_builtins(await page_of(store))
    return await read_answer(settings, path, **query)


@sessions.command("show", epilog="Example: cuebook sessions show 7109d623-8314-4cc4-b6a2-11c8d5b88e58")
@click.argument("session_id")
@click.option("--calls", "with_calls", is_flag=True, help="Also show the calls of language models.")
@click.option("--prompts", "with_prompts", is_flag=True, help="Also show these calls with their prompts and replies.")
@click.option("--context", "with_context", is_flag=True, help="Also show the part of the conversation that models see.")
@in_json
@with_settings("data")
async def show_session(
    settings: Settings, session_id: str, with_calls: bool, with_prompts: bool, with_context: bool, as_json: bool
) -> None:
    """Show a session: its status, position, variables and messages."""
    path = f"/api/sessions/{in_path(session_id)}"
    async with backend(settings) as api:
        shown = await api.get(path)
        shown["messages"] = [message | _role_of(message) for message in await api.rows(f"{path}/messages")]
        if with_calls or with_prompts:
            shown["calls"] = await api.rows(f"{path}/calls", debug=with_prompts)
        if with_context:
            shown["context"] = await api.get(f"{path}/context")
    if as_json:
        print_json(shown)
        return
    place = _place_of(shown)
    console.print(f"[bold]{shown['sessionId']}[/]  user {printable(shown['userId'])}  {shown['status']}")
    console.print(f"turn {shown['turn']}, {shown['executionStatus']}{' at ' + escape(place) if place else ''}")
    for name, value in shown["variables"].items():
        console.print(f"  {printable(name)} = {printable(str(value))}")
    for message in shown["messages"]:
        console.print(f"[dim]{message['role']:>9}[/]  {printable(message['content'])}")
    if with_context:
        _show_context(shown["context"])
    if "calls" in shown and not shown["calls"]:
        console.print("[dim]no language model was called[/]")
    elif "calls" in shown:
        print_rows((*CALL_COLUMNS, *USAGE_COLUMNS), map(_call_row, shown["calls"]))
    for call in shown["calls"] if with_prompts else ():
        _show_prompt(call)


def _role_of(message: dict[str, Any]) -> dict[str, str]:
    """Return the role of a message as everywhere but in the routes that call it `ai`."""
    return {"role": "assistant" if message["role"] == "ai" else message["role"]}


def _place_of(session: Any) -> str:
    return "/".join(session["position"][part] for part in ("phaseId", "topicId", "actionId")).strip("/")


def _call_row(call: dict[str, Any]) -> dict[str, Any]:
    usage = call["usage"] or {}
    return call | {name: usage.get(name) for name in USAGE_COLUMNS} | {"model": usage.get("model") or call["model"]}


def _show_prompt(call: Any) -> None:
    """Print the prompt of a call and the reply."""
    console.print(f"[bold]turn {call['turn']}, call {call['number']}[/]  {escape(call['actionId'])}")
    if call["prompt"] is None:
        console.print("[dim]the prompt is not stored[/]")
    for message in call["prompt"]["messages"] if call["prompt"] is not None else ():
        console.print(f"[dim]--- {message['role']} ---[/]")
        console.print(printable(message["content"]))
    reply = call["reply"] or {}
    console.print("[dim]--- reply ---[/]")
    console.print(printable(reply.get("raw") or reply.get("text") or call["error"]))


def _show_context(context: Any) -> None:
    """Print the part of a conversation that models see."""
    numbers = context["messages"]
    span = f"messages {numbers[0]} to {numbers[-1]}" if numbers else "no messages"
    console.print(f"context {escape(context['strategy'])}: {span}, about {context['tokens']} tokens")
    if context["summary"]:
        console.print(f"[dim]summary of messages to {context['summaryTo']}[/]  {printable(context['summary'])}")
    for name, value in context["memo"].items():
        console.print(f"[dim]memo[/]  {printable(name)} = {printable(str(value))}")


@sessions.command("delete", epilog="Example: cuebook sessions delete 7109d623-8314-4cc4-b6a2-11c8d5b88e58 --yes")
@click.argument("session_ids", nargs=-1, required=True, metavar="SESSION_ID...")
@skip_confirmation
@with_settings("data")
async def delete_sessions(settings: Settings, session_ids: tuple[str, ...], yes: bool) -> None:
    """Delete sessions and everything that is recorded of them. This cannot be undone.

    A turn in progress finishes first. Global variables belong to the user and remain. Until `cuebook compact`, bytes
    of the deleted data may remain in the file.
    """
    confirm(f"Permanently delete {count_text(len(session_ids), 'session')}?", yes=yes)
    await send_each(settings, "DELETE", "/api/sessions", session_ids, None, "deleted")


# -- commands that change a session -----------------------------------------------------------------------------------


_EXAMPLE = "7109d623-8314-4cc4-b6a2-11c8d5b88e58"


def _print_session(found: Any) -> None:
    place = _place_of(found)
    console.print(
        f"[bold]{found['sessionId']}[/]  {found['status']}, turn {found['turn']}{' at ' * bool(place)}{escape(place)}"
    )


def _change(
    name: str, *options: Callable[[Command], Command], example: str = "", path: str = "", method: str = "POST"
) -> Callable[[Command], click.Command]:
    """Add a subcommand with `options` that changes one session, and prints the resulting status and position.

    Its function returns the body of the request, to the `path` below the session [the name of the command].
    """

    def decorate(function: Command) -> click.Command:
        @json_option(_print_session)
        @with_settings("data")
        @wraps(function)
        async def command(settings: Settings, session_id: str, **values: Any) -> Any:
            body = function(**values)
            async with backend(settings, writing=True) as api:
                return await api.send(method, f"/api/sessions/{in_path(session_id)}/{path or name}", body)

        decorated: Command = command
        parameters: list[Callable[[Command], Command]] = [click.argument("session_id", metavar="SESSION"), *options]
        for parameter in reversed(parameters):
            decorated = parameter(decorated)
        return sessions.command(name, epilog=f"Example: cuebook sessions {name} {_EXAMPLE} {example}".rstrip())(
            decorated
        )

    return decorate


@_change("pause")
def pause() -> dict[str, Any]:
    """Pause a session: it refuses messages until `cuebook sessions resume`."""
    return {}


@_change("resume")
def resume() -> dict[str, Any]:
    """Resume a paused session at its current position."""
    return {}


@_change(
    "end",
    click.option("--reason", default="", help="The reason; stored with the session."),
    example="--reason 'nobody came back'",
)
def end_session(reason: str) -> dict[str, Any]:
    """End a session at its current position."""
    return {"reason": reason}


@_change(
    "set",
    click.argument("pairs", metavar="NAME=VALUE...", nargs=-1, required=True),
    click.option(
        "--scope",
        type=click.Choice(["global", "session", "phase", "topic"]),
        help="Scope of the variables [as declared].",
    ),
    example="age=41 nickname=null",
    path="variables",
    method="PATCH",
)
def set_variables(pairs: Sequence[str], scope: str | None) -> dict[str, Any]:
    """Set variables of a session, all or none.

    A value that is valid JSON is stored as such, any other as a text; null unsets a variable.
    """
    return {"variables": dict(value_of(pair, "set") for pair in pairs), "scope": scope}


@_change(
    "rewind",
    click.option("--turn", type=click.IntRange(0), help="Rewind to the state after this turn."),
    click.option(
        "--before", type=click.IntRange(0), help="Rewind to the state before this user message, counted from 0."
    ),
    example="--turn 2",
)
def rewind(turn: int | None, before: int | None) -> dict[str, Any]:
    """Rewind a session to an earlier turn.

    Later messages leave the conversation; the database still stores them.
    """
    if (turn is None) == (before is None):
        fail("name the turn to rewind to: either --turn or --before")
    return without_none({"turn": turn, "beforeUserMessage": before})


@_change("clear")
def clear() -> dict[str, Any]:
    """Remove all messages from the conversation of a session.

    The session stays at its current position; the database still stores the messages.
    """
    return {}


@_change(
    "fork",
    click.option("--turn", type=click.IntRange(0), help="Copy the state after this turn [the last]."),
    click.option("--before", type=click.IntRange(0), help="Copy the state before this user message, counted from 0."),
    click.option("--key", help="Session key of the copy; must be unique."),
    example="--before 1 --key second-try",
)
def fork(turn: int | None, before: int | None, key: str | None) -> dict[str, Any]:
    """Copy a session up to a turn, to continue it in another way; print the id of the copy first."""
    return without_none({"turn": turn, "beforeUserMessage": before, "key": key})
