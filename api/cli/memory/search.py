"""``cuebook memory search``: search a memory, and explain the scores."""

from collections.abc import Mapping
from typing import Any

import click

from api.cli.backend import backend
from api.cli.memory.options import filter_of, minute, of_user, shorten_line, time_of
from api.cli.options import in_json, with_settings
from api.cli.output import console, errors, fail, print_json, print_table, printable
from api.settings import Settings

SEARCH = "/api/memory/search"
COLUMNS = ("chain", "score", "unitId", "time", "source", "text")
REASONS_MAX = 6
"""Number of signals shown per hit, the largest first; `--json` contains all of them."""


@click.command(epilog="Example: cuebook memory search --user ana 'Where does Ana live?' --explain")
@click.argument("text")
@of_user
@click.option("-k", "k", type=click.IntRange(1, 1_000), default=5, help="Maximum number of hits [5].")
@click.option(
    "--strategy",
    type=click.Choice(["hybrid", "lexical", "dense"]),
    default="hybrid",
    help="Search by words (lexical), by meaning (dense), or by both [hybrid].",
)
@click.option("--filter", "filters", metavar="JSON", help="""Only units that match, such as '{"source": "Ana"}'.""")
@click.option(
    "--rank",
    "ranks",
    type=click.IntRange(0, 2),
    multiple=True,
    help="0: messages and notes, 1: summaries of groups, 2: summaries of the memory. May be repeated [0, or "
    "those that --filter selects].",
)
@click.option(
    "--context",
    "recallContext",
    type=click.IntRange(0, 20),
    default=0,
    help="Neighbours of each hit on either side [0].",
)
@click.option("--group", help="The current session or collection: its short-term memory is searched first.")
@click.option(
    "--exclude-context", "excludeContext", is_flag=True, help="Leave out the context of --group: its latest messages."
)
@click.option("--short-term", "shortTermOnly", is_flag=True, help="Only in the short-term memory of --group.")
@click.option("--long-term", "longTermOnly", is_flag=True, help="Only in long-term memory.")
@click.option(
    "--min-score", "minScore", type=click.FloatRange(0, 1), help="Only hits with at least this score, 0 to 1."
)
@click.option(
    "--half-life", "half_life", type=click.FloatRange(0.01), help="The age in days at which scores are halved."
)
@click.option("--as-of", help="Search the memory as of this time, such as 2026-01-31 [now].")
@click.option("--external", multiple=True, metavar="NAME", help="Also search this external memory. May be repeated.")
@click.option("--explain", is_flag=True, help="Show the signals behind each score.")
@in_json
@with_settings("data", "embedder")
async def search(
    settings: Settings,
    text: str,
    user_id: str,
    filters: str | None,
    ranks: tuple[int, ...],
    half_life: float | None,
    as_of: str | None,
    explain: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Search a user's memory for TEXT, by words and by meaning; print the best hits first.

    A score from 0 to 1 estimates how likely a unit answers TEXT; neighbours of a hit have none. With --explain each hit
    lists the signals for and against it. Hits count as visited, as when a script recalls them.
    """
    if not text.strip():
        fail("the search text is empty; write e.g. 'Where does Ana live?'")
    body = options | {
        "userId": user_id,
        "text": text,
        "filters": filter_of(filters),
        "ranks": sorted({*ranks}) or None,
        "decay": None if half_life is None else {"halfLifeDays": half_life},
        "asOf": time_of(as_of, "--as-of"),
        "explain": explain,
    }
    async with backend(settings, writing=True) as api:
        found = await api.send("POST", SEARCH, body)
    if as_json:
        print_json(found)
    else:
        _print(found["chains"], explain=explain)
    if not found["chains"]:
        errors.print("nothing found")


def _print(chains: Any, *, explain: bool) -> None:
    if explain:
        _explain(chains)
    else:
        print_table(COLUMNS, [_line(number, unit) for number, unit in _units_of_chains(chains)])


def _units_of_chains(chains: list[Any]) -> list[tuple[str, Any]]:
    """Return every unit with the number of its chain and the name of its external memory, if any."""
    return [
        (f"{number} {chain['external'] or ''}".rstrip(), unit)
        for number, chain in enumerate(chains, 1)
        for unit in chain["units"]
    ]


def _line(number: str, unit: Any) -> list[Any]:
    score = f"{unit['score']:.3f}" if unit["isHit"] else ""
    return [number, score, unit["unitId"], minute(unit["creationTime"]), unit["source"], shorten_line(unit["content"])]


def _explain(chains: list[Any]) -> None:
    """Print each chain with the signals for and against its hits."""
    for number, unit in _units_of_chains(chains):
        time, source = printable(minute(unit["creationTime"])), printable(unit["source"])
        place = f"[dim]{time}[/] {source}: {printable(shorten_line(unit['content']))}"
        if not unit["isHit"]:
            console.print(f"{printable(number):>3}  neighbour  {place}")
            continue
        console.print(
            f"{printable(number):>3}  [bold]{unit['score']:.3f}[/]  {place}  [dim]{printable(unit['unitId'])}[/]"
        )
        console.print(f"            {printable(reasons(unit['signals']))}")


def reasons(signals: Mapping[str, float]) -> str:
    """Return the signals of a score, the largest first."""
    largest = sorted(signals.items(), key=lambda each: -abs(each[1]))[:REASONS_MAX]
    return ", ".join(f"{name.replace('_', ' ')} {share:+.2f}" for name, share in largest)
