"""``cuebook memory search``: what comes to mind, and why."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from api.cli.memory.asking import filter_of, in_json, minute, of_user, shortened, time_of
from api.cli.options import settings_of, with_settings
from api.cli.output import console, errors, fail, print_json, print_table, told
from api.cli.reach import reach, run

SEARCH = "/api/memory/search"
COLUMNS = ("chain", "score", "unitId", "time", "source", "text")
REASONS_MAX = 6
"""Of a hit, the weightiest; `--json` has all of them."""


@click.command(epilog="Example: cuebook memory search --user ana 'Where does Ana live?' --explain")
@click.argument("text")
@of_user
@click.option("-k", "k", type=click.IntRange(1, 1_000), default=5, help="How many hits at most [5].")
@click.option("--strategy", type=click.Choice(["hybrid", "lexical", "dense"]), default="hybrid", help="[hybrid]")
@click.option(
    "--filter", "filters", metavar="JSON", help="""Only among those of which it is true: '{"source": "Ana"}'."""
)
@click.option("--rank", "ranks", type=click.IntRange(0, 2), multiple=True, help="1, 2: summaries. May be repeated [0].")
@click.option("--context", type=click.IntRange(0, 20), default=0, help="Neighbours of a hit on either side [0].")
@click.option("--group", help="The session or collection that asks: its short-term memory is looked at first.")
@click.option("--exclude-context", is_flag=True, help="Leave out the context of --group: what was said last in it.")
@click.option("--short-term", is_flag=True, help="Only in the short-term memory of --group.")
@click.option("--long-term", is_flag=True, help="Only in long-term memory.")
@click.option("--min-score", type=click.FloatRange(0, 1), help="Only hits this likely, 0 to 1.")
@click.option("--half-life", "half_life", type=click.FloatRange(0.01), help="Days after which it counts for half.")
@click.option("--as-of", help="What held then, such as 2026-01-31 [now].")
@click.option("--external", multiple=True, metavar="NAME", help="Also in this external memory. May be repeated.")
@click.option("--explain", is_flag=True, help="Say what speaks for each hit.")
@in_json
@with_settings("data", "host", "port", "embedder")
def search(
    text: str,
    user_id: str,
    k: int,
    strategy: str,
    filters: str | None,
    ranks: tuple[int, ...],
    context: int,
    group: str | None,
    exclude_context: bool,
    short_term: bool,
    long_term: bool,
    min_score: float | None,
    half_life: float | None,
    as_of: str | None,
    external: tuple[str, ...],
    explain: bool,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Finds what comes to mind of TEXT in a user's memory, by words and by meaning, the best first.

    A score, from 0 to 1, is about how likely a unit is an answer; neighbours of a hit have none. With --explain each
    hit tells what speaks for it, and what against it. What is found counts as visited, as when a script recalls it.
    Exits with 1 where nothing comes to mind.
    """
    if not text.strip():
        fail("there is nothing to look for: TEXT is empty")
    body = {
        "userId": user_id,
        "text": text,
        "k": k,
        "strategy": strategy,
        "filters": filter_of(filters),
        "ranks": sorted({*ranks}) or [0],
        "recallContext": context,
        "group": group,
        "excludeContext": exclude_context,
        "shortTermOnly": short_term,
        "longTermOnly": long_term,
        "minScore": min_score,
        "decay": None if half_life is None else {"halfLifeDays": half_life},
        "asOf": time_of(as_of, "--as-of"),
        "external": list(external),
        "explain": explain,
    }
    settings = settings_of(config, **flags)

    async def work() -> Any:
        async with reach(settings, writing=True) as api:
            return await api.send("POST", SEARCH, body)

    found = run(work())
    if as_json:
        print_json(found)
    elif explain:
        _explain(found["chains"])
    else:
        print_table(COLUMNS, [_line(number, unit) for number, unit in _numbered(found["chains"])])
    if not found["chains"]:
        errors.print("nothing comes to mind")
        raise SystemExit(1)


def _numbered(chains: list[Any]) -> list[tuple[str, Any]]:
    """Every unit with the number of its chain, and the external memory it is from."""
    return [
        (f"{number} {chain['external'] or ''}".rstrip(), unit)
        for number, chain in enumerate(chains, 1)
        for unit in chain["units"]
    ]


def _line(number: str, unit: Any) -> list[Any]:
    score = f"{unit['score']:.3f}" if unit["isHit"] else ""
    return [number, score, unit["unitId"], minute(unit["creationTime"]), unit["source"], shortened(unit["content"])]


def _explain(chains: list[Any]) -> None:
    """Each chain with what speaks for its hits, and what against them."""
    for number, unit in _numbered(chains):
        place = (
            f"[dim]{told(minute(unit['creationTime']))}[/] {told(unit['source'])}: {told(shortened(unit['content']))}"
        )
        if not unit["isHit"]:
            console.print(f"{told(number):>3}  beside it  {place}")
            continue
        console.print(f"{told(number):>3}  [bold]{unit['score']:.3f}[/]  {place}  [dim]{told(unit['unitId'])}[/]")
        console.print(f"            {told(reasons(unit['signals']))}")


def reasons(signals: Mapping[str, float]) -> str:
    """What a score is made of, the weightiest first."""
    weighty = sorted(signals.items(), key=lambda each: -abs(each[1]))[:REASONS_MAX]
    return ", ".join(f"{name.replace('_', ' ')} {share:+.2f}" for name, share in weighty)


COMMANDS = (search,)
