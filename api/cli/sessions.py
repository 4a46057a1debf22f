"""``cuebook sessions``: what is in the record."""

from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from api.cli import lifecycle
from api.cli.options import settings_of, with_settings
from api.cli.output import confirm, console, errors, fail, print_json, print_table, told
from api.cli.reach import Answered, Reach, reach, run
from api.cli.transfers import export_sessions, import_sessions
from api.paths import in_path


@click.group()
def sessions() -> None:
    """Looks at recorded sessions, changes and deletes them, also while a server runs."""


for command in lifecycle.COMMANDS:
    sessions.add_command(command)


sessions.add_command(export_sessions)
sessions.add_command(import_sessions)


@sessions.command("list", epilog="Example: cuebook sessions list --user ana --status active")
@click.option("--user", help="Only this user's.")
@click.option("--status", type=click.Choice(["active", "paused", "completed", "failed"]), help="Only of this status.")
@click.option("--script", help="Only those that run this script now: its id.")
@click.option("--key-prefix", help="Only those whose key begins so.")
@click.option("--metadata", multiple=True, metavar="NAME:VALUE", help="Only with this in their metadata.")
@click.option("--sort", type=click.Choice(["activity", "created"]), help="The last active [default] or newest first.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, help="How many at most [50].")
@click.option("--cursor", help="`nextCursor` of the page before.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port")
def list_sessions(
    user: str | None,
    status: str | None,
    script: str | None,
    key_prefix: str | None,
    metadata: tuple[str, ...],
    sort: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Lists sessions, the last active first."""
    asked = {
        "userId": user,
        "status": status,
        "scriptId": script,
        "keyPrefix": key_prefix,
        "metadata": list(metadata),
        "sort": sort,
        "limit": limit,
        "cursor": cursor,
    }
    page = _read("/api/sessions", asked, config, flags)
    if as_json:
        print_json(page)
        return
    columns = ("sessionId", "userId", "status", "turn", "messageCount", "updatedAt", "title", "preview")
    print_table(columns, [[row[column] for column in columns] for row in page["data"]])
    _tell_more(page)


@sessions.command("search", epilog="Example: cuebook sessions search 'garden \"in the evening\"' --user ana")
@click.argument("words")
@click.option("--user", help="Only in this user's sessions.")
@click.option("--session", "session_id", help="Only in this session.")
@click.option("--role", type=click.Choice(["ai", "user", "system", "tool"]), help="Only what they said.")
@click.option("--script", help="Only in sessions that run this script now: its id.")
@click.option("--limit", type=click.IntRange(1, 200), default=20, help="How many at most [20].")
@click.option("--cursor", help="`nextCursor` of the page before.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port")
def search_sessions(
    words: str,
    user: str | None,
    session_id: str | None,
    role: str | None,
    script: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Finds messages in which all WORDS occur, in either case; a phrase stands in double quotes."""
    asked = {"q": words, "userId": user, "sessionId": session_id, "role": role, "scriptId": script}
    page = _read("/api/sessions/search", asked | {"limit": limit, "cursor": cursor}, config, flags)
    if as_json:
        print_json(page)
        return
    columns = ("sessionId", "userId", "timestamp", "number", "role", "text")
    print_table(columns, [_hit_line(hit) for hit in page["data"]])
    _tell_more(page)


def _hit_line(hit: Any) -> list[Any]:
    message = hit["message"]
    text = "".join(piece["text"] for piece in message["excerpt"])
    return [hit["sessionId"], hit["userId"], message["timestamp"], message["number"], message["role"], text]


@sessions.command("stats", epilog="Example: cuebook sessions stats 7109d623-8314-4cc4-b6a2-11c8d5b88e58")
@click.argument("session_id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port")
def session_stats(session_id: str, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Shows what a session came to: messages, times, tokens."""
    stats = _read(f"/api/sessions/{in_path(session_id)}/stats", {}, config, flags)
    if as_json:
        print_json(stats)
        return
    for name in ("sessionId", "turns", "messages", "durationSeconds", "meanAnswerSeconds", "meanTurnSeconds"):
        console.print(f"{name} {'' if stats[name] is None else stats[name]}")
    for spoken in stats["byRole"]:
        mean = f"{spoken['meanCharacters']:.1f}"
        console.print(f"{spoken['role']} {spoken['messages']} messages, {mean} characters on average")
    console.print(f"transcript about {stats['transcriptTokens']['estimate']} tokens")
    models = stats["models"]
    spent = f", cost {models['cost']}" if models["cost"] is not None else ""
    tokens = f"{models['inputTokens']} tokens in, {models['outputTokens']} out"
    console.print(f"models {models['calls']} calls, {tokens}{spent}")


def _read(path: str, asked: dict[str, Any], config: Path | None, flags: dict[str, Any]) -> Any:
    """What a GET answers; ends the command where it is refused."""
    settings = settings_of(config, **flags)

    async def work() -> Any:
        async with reach(settings) as api:
            return await api.get(path, **asked)

    return run(work())


def _tell_more(page: Any) -> None:
    if page["nextCursor"]:
        click.echo(f"more: --cursor {page['nextCursor']}", err=True)


@sessions.command("show", epilog="Example: cuebook sessions show 7109d623-8314-4cc4-b6a2-11c8d5b88e58")
@click.argument("session_id")
@click.option("--calls", "with_calls", is_flag=True, help="Also what was asked of language models.")
@click.option("--context", "with_context", is_flag=True, help="Also what models see of the conversation.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data", "host", "port")
def show_session(
    session_id: str, with_calls: bool, with_context: bool, as_json: bool, config: Path | None, **flags: Any
) -> None:
    """Shows a session: where it stands, its variables, what was said."""
    settings = settings_of(config, **flags)

    async def work() -> Any:
        async with reach(settings) as api:
            session: Any = await api.get(f"/api/sessions/{in_path(session_id)}")
            messages: list[Any] = []
            after: int | None = 0
            while after is not None:
                page: Any = await api.get(f"/api/sessions/{in_path(session_id)}/messages", after=after, limit=200)
                messages += page["data"]
                after = page["nextAfter"]
            calls = {"calls": await _calls(api, session_id)} if with_calls else {}
            context = {"context": await api.get(f"/api/sessions/{in_path(session_id)}/context")} if with_context else {}
            return {**session, "messages": messages, **calls, **context}

    shown = run(work())
    if as_json:
        print_json(shown)
        return
    place = "/".join(shown["position"][part] for part in ("phaseId", "topicId", "actionId")).strip("/")
    console.print(f"[bold]{shown['sessionId']}[/]  user {told(shown['userId'])}  {shown['status']}")
    console.print(f"turn {shown['turn']}, {shown['executionStatus']}{' at ' + escape(place) if place else ''}")
    for name, value in shown["variables"].items():
        console.print(f"  {told(name)} = {told(str(value))}")
    for message in shown["messages"]:
        console.print(f"[dim]{message['role']:>4}[/]  {told(message['content'])}")
    if with_context:
        _show_context(shown["context"])
    if with_calls:
        print_table(_CALL_COLUMNS, [_call_line(call) for call in shown["calls"]])


def _show_context(context: Any) -> None:
    """What models see of a conversation."""
    numbers = context["messages"]
    span = f"messages {numbers[0]} to {numbers[-1]}" if numbers else "no messages"
    console.print(f"context {escape(context['strategy'])}: {span}, about {context['tokens']} tokens")
    if context["summary"]:
        console.print(f"[dim]summary of messages to {context['summaryTo']}[/]  {told(context['summary'])}")
    for name, value in context["memo"].items():
        console.print(f"[dim]memo[/]  {told(name)} = {told(str(value))}")


async def _calls(api: Reach, session_id: str) -> list[Any]:
    """Every call of a session, page by page."""
    found: list[Any] = []
    cursor = None
    while True:
        page: Any = await api.get(f"/api/sessions/{in_path(session_id)}/calls", limit=200, cursor=cursor)
        found += page["data"]
        cursor = page["nextCursor"]
        if cursor is None:
            return found


@sessions.command("delete", epilog="Example: cuebook sessions delete 7109d623-8314-4cc4-b6a2-11c8d5b88e58 --yes")
@click.argument("session_ids", nargs=-1, required=True, metavar="SESSION_ID...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_settings("data", "host", "port")
def delete_sessions(session_ids: tuple[str, ...], yes: bool, config: Path | None, **flags: Any) -> None:
    """Deletes sessions, with everything that is recorded of them. There is no way back.

    A turn that is under way is taken first. Global variables are the user's, and stay. Until `cuebook compact`, bytes
    of what was deleted may still be in the file.
    """
    settings = settings_of(config, **flags)
    confirm(f"Delete {len(session_ids)} session{'s' * (len(session_ids) != 1)} for good?", yes=yes)

    async def work() -> list[str]:
        missing = []
        async with reach(settings, writing=True) as api:
            for session_id in session_ids:
                try:
                    await api.send("DELETE", f"/api/sessions/{in_path(session_id)}")
                    errors.print(f"deleted {escape(session_id)}")
                except Answered as refused:
                    missing.append(f"{session_id}: {refused}")
        return missing

    if missing := run(work()):
        fail("; ".join(missing))


_CALL_COLUMNS = ("turn", "number", "action", "purpose", "model", "outcome", "used", "in", "out", "cost", "ms", "error")


def _call_line(call: Any) -> list[Any]:
    usage = call["usage"] or {}
    return [
        call["turn"],
        call["number"],
        call["actionId"],
        call["purpose"],
        usage.get("model") or call["model"],
        call["outcome"],
        call["used"],
        usage.get("inputTokens"),
        usage.get("outputTokens"),
        usage.get("cost"),
        usage.get("latencyMs"),
        call["error"],
    ]
