"""Searches a loaded memory: finds units, groups them into chains, and drafts their visits."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from api.memory.loaded_memory import LoadedMemory
from api.memory.requests import Query
from api.memory.transaction import MemoryTransaction
from api.schemas.memory import ChainUnit, ChainView, RecalledView
from api.schemas.memory_errors import InvalidMemoryRequest
from runtime.memory.chains import Around, Chain, Hit, chains_of
from runtime.memory.recall.query import IndexHit, Question
from runtime.memory.short_term import ShortTermUnits
from store.interface.memory_rows import MemoryChange

TIMES_MAX = 20  # of the duplicates of a hit
SHORT_TERM_SCORE_MIN = 0.2
"""From this score on, units in short-term memory come before all others."""


class SearchResult(Struct, frozen=True):
    """The chains of a search, the best first, and its hits by their sequence."""

    chains: list[Chain]
    hits: Mapping[int, IndexHit]


def find(
    loaded: LoadedMemory, query: Query, allowed: Collection[int] | None, now: datetime, in_sight: int | None = None
) -> SearchResult:
    """Search a memory, and store the query's vector in `loaded.recent_queries`.

    With `in_sight` the messages of the session from that one on (0: none) are hidden, because the prompt of the turn
    contains them; for an explicit query (None) only what the query itself excludes. Raises InvalidMemoryRequest.
    """
    if query.exclude_context or query.short_term_only:
        loaded.require_group(query.group)
    if query.vector is not None:
        loaded.recent_queries.append(query.vector)
    working = loaded.short_term(query.group).working
    hidden = {*_in_prompt(loaded, query, working, in_sight), *_not_valid(loaded, query, now)}
    hits = {each.sequence: each for each in _hits(loaded, query, allowed, working, hidden, now)}
    chains = chains_of(
        [Hit(each.sequence, each.score) for each in hits.values()],
        {sequence: loaded.units[sequence].group_id for sequence in hits},
        loaded.order,
        k=query.k,
        around=Around(units=query.recall_context),
        excluded=hidden,
        chars_of=lambda sequence: len(loaded.units[sequence].content),
    )
    return SearchResult(chains, hits)


def search(
    loaded: LoadedMemory, query: Query, allowed: Collection[int] | None, now: datetime, external: Sequence[ChainView]
) -> tuple[RecalledView, MemoryChange | None]:
    """Return the best k of the memory's own and the `external` chains, and the change of the memory by the visits."""
    found = find(loaded, query, allowed, now)
    together = top_k(recalled_chains(loaded, found), external, query.k)
    chains = found.chains[: sum(not chain.external for chain in together)]
    draft = MemoryTransaction(loaded, now)
    draft.visit(sequence for chain in chains for sequence in chain.sequences)
    if query.group in loaded.groups and query.add_to_short_term:
        draft.recall(query.group, [hit.sequence for chain in reversed(chains) for hit in reversed(chain.hits)])
    return RecalledView(chains=together, round=loaded.round), draft.change()


def recalled_chains(loaded: LoadedMemory, found: SearchResult, external: str | None = None) -> list[ChainView]:
    """Return the chains of a search with their units; `external` names the memory if it is not the user's own."""
    return [
        ChainView(
            score=chain.score,
            external=external,
            units=[_unit(loaded, each, found.hits.get(each)) for each in chain.sequences],
        )
        for chain in found.chains
    ]


def top_k(own: Sequence[ChainView], external: Sequence[ChainView], k: int) -> list[ChainView]:
    """Return the best k chains of both, best first; of equal scores the user's own come first."""
    return sorted([*own, *external], key=lambda chain: -chain.score)[:k]


def _in_prompt(loaded: LoadedMemory, query: Query, working: ShortTermUnits, in_sight: int | None) -> Collection[int]:
    """Return the units that the prompt contains already, as `in_sight` or `exclude_context` says."""
    if in_sight is None:
        return working.context if query.exclude_context else ()
    return loaded.messages_from(query.group, in_sight) if in_sight else ()


def _not_valid(loaded: LoadedMemory, query: Query, now: datetime) -> Collection[int]:
    """Return the units that may be neither hits nor neighbours.

    These are units that are not valid at the query's time, and withdrawn summaries, which may contain removed units.
    """
    of_time = loaded.not_valid(now) if query.as_of is None else loaded.not_there(query.as_of)
    return {*of_time, *loaded.stale}


def _hits(
    loaded: LoadedMemory,
    query: Query,
    allowed: Collection[int] | None,
    working: ShortTermUnits,
    hidden: Collection[int],
    now: datetime,
) -> Sequence[IndexHit]:
    """Return the best k hits; those in short-term memory with a sufficient score come first."""
    excluded = {*loaded.not_of(query.searched_ranks), *hidden}

    def hits(among: Collection[int] | None, k: int) -> list[IndexHit]:
        question = Question(
            text=query.text,
            vector=query.vector,
            k=k,
            allowed=None if among is None else set(among),
            excluded=excluded,
            strategy=query.strategy,
            decay=query.decay,
            now=query.as_of or now,
            min_score=query.min_score,
            explain=query.explain,
            with_fillers=query.filters is not None or not query.text.strip(),
        )
        return loaded.bank.search(question, loaded.index)

    short_term = set(working.short_term or ())
    if query.short_term_only and working.short_term is None:
        raise InvalidMemoryRequest(
            f"{query.group!r} has no short-term memory: start the group with one, or leave out `shortTermOnly`"
        )
    if query.short_term_only:
        return hits(short_term if allowed is None else short_term & set(allowed), query.k)
    if query.long_term_only or not short_term:
        return hits(allowed, query.k)
    ranked = hits(allowed, query.k + len(short_term))
    good_enough = SHORT_TERM_SCORE_MIN if query.min_score is None else query.min_score
    first = [each for each in ranked if each.sequence in short_term and each.score >= good_enough]
    rest = [each for each in ranked if each.sequence not in short_term or each.score < good_enough]
    return [*first, *rest][: query.k]


def _unit(loaded: LoadedMemory, sequence: int, hit: IndexHit | None) -> ChainUnit:
    before, after = loaded.neighbours(sequence)
    same = () if hit is None else hit.same
    times = sorted(loaded.units[each].creation_time for each in (sequence, *same))
    return ChainUnit.of(
        loaded.without_withdrawn(loaded.units[sequence]),
        is_hit=hit is not None,
        score=None if hit is None else hit.score,
        signals={} if hit is None else hit.signals,
        count=len(times),
        times=times[-TIMES_MAX:],
        pre_id=before,
        next_id=after,
    )
