"""One query of a loaded memory: which units come to mind, in which chains, and whom that visits."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from api.memory.asked import TIMES_MAX, Query, Recalled, RecalledChain, RecalledUnit
from api.memory.draft import Draft
from api.memory.loaded import Loaded
from api.memory.minds import Mind
from api.memory.refusals import MemoryRefused
from runtime.memory.chains import Around, Hit, chains_of
from runtime.memory.recall.asking import Found, Question
from runtime.memory.working import Working
from store.memory.rows import MemoryChange

SHORT_TERM_SCORE_MIN = 0.2
"""From this score on, what is in short-term memory comes before all else."""


class Finding(Struct, frozen=True):
    """What was found, and what that does to the memory."""

    recalled: Recalled
    change: MemoryChange | None


def find(
    loaded: Loaded,
    query: Query,
    allowed: Collection[int] | None,
    now: datetime,
    in_sight: int | None = None,
    external: Sequence[RecalledChain] = (),
) -> Finding:
    """Search, and draft the visits; remember the question's vector.

    Hidden are, with `in_sight`, the messages of the session from that one on (0: none), since the prompt of the turn
    holds them; for an explicit query (None) nothing but what the query itself excludes. Of own and external chains the
    best k are returned.
    """
    if query.vector is not None:
        loaded.asked.append(query.vector)
    working = loaded.minds.get(query.group, Mind()).working
    hidden = {*_in_prompt(loaded, query, working, in_sight), *_no_more(loaded, query, now)}
    found = {each.sequence: each for each in _found(loaded, query, allowed, working, hidden, now)}
    chains = chains_of(
        [Hit(each.sequence, each.score) for each in found.values()],
        {sequence: loaded.units[sequence].group_id for sequence in found},
        loaded.order,
        k=query.k,
        around=Around(units=query.recall_context),
        excluded=hidden,
        chars_of=lambda sequence: len(loaded.units[sequence].content),
    )
    recalled = [
        RecalledChain(score=chain.score, units=[_unit(loaded, each, found) for each in chain.sequences])
        for chain in chains
    ]
    together = best_of(recalled, external, query.k)
    chains = chains[: sum(not chain.external for chain in together)]
    draft = Draft(loaded, now)
    draft.visit(sequence for chain in chains for sequence in chain.sequences)
    if query.group in loaded.groups and query.add_to_short_term:
        draft.recall(query.group, [hit.sequence for chain in reversed(chains) for hit in reversed(chain.hits)])
    return Finding(Recalled(together, loaded.round), draft.change())


def best_of(own: Sequence[RecalledChain], external: Sequence[RecalledChain], k: int) -> list[RecalledChain]:
    """The best k of both, the best first; of equal ones the user's own."""
    return sorted([*own, *external], key=lambda chain: -chain.score)[:k]


def _in_prompt(loaded: Loaded, query: Query, working: Working, in_sight: int | None) -> Collection[int]:
    """Return the units that the prompt holds already, which is asked for by `in_sight` or `exclude_context`."""
    if in_sight is None:
        return working.context if query.exclude_context else ()
    return loaded.messages_from(query.group, in_sight) if in_sight else ()


def _no_more(loaded: Loaded, query: Query, now: datetime) -> Collection[int]:
    """What is not given, neither as a hit nor beside one: what did not hold at the time that is asked about, or was
    not there yet; and summaries that may tell of what was taken back.
    """
    of_time = loaded.not_valid(now) if query.as_of is None else loaded.not_there(query.as_of)
    return {*of_time, *loaded.stale}


def _found(
    loaded: Loaded,
    query: Query,
    allowed: Collection[int] | None,
    working: Working,
    hidden: Collection[int],
    now: datetime,
) -> Sequence[Found]:
    """The best k: of what is in short-term memory first, as far as that is good enough."""
    excluded = {*loaded.not_of(query.ranks), *hidden}

    def search(among: Collection[int] | None, k: int) -> list[Found]:
        question = Question(
            text=query.text,
            vector=query.vector,
            k=k,
            allowed=None if among is None else set(among),
            excluded=excluded,
            strategy=query.strategy,
            decay=query.decay,
            now=now,
            min_score=query.min_score,
            explain=query.explain,
            with_fillers=query.filters is not None or not query.text.strip(),
        )
        return loaded.bank.search(question, loaded.index)

    in_mind = set(working.short_term or ())
    if query.short_term_only and working.short_term is None:
        raise MemoryRefused(
            f"{query.group!r} has no short-term memory: begin it with one, or leave out `shortTermOnly`"
        )
    if query.short_term_only:
        return search(in_mind if allowed is None else in_mind & set(allowed), query.k)
    if query.long_term_only or not in_mind:
        return search(allowed, query.k)
    ranked = search(allowed, query.k + len(in_mind))
    good_enough = SHORT_TERM_SCORE_MIN if query.min_score is None else query.min_score
    first = [each for each in ranked if each.sequence in in_mind and each.score >= good_enough]
    rest = [each for each in ranked if each.sequence not in in_mind or each.score < good_enough]
    return [*first, *rest][: query.k]


def _unit(loaded: Loaded, sequence: int, found: Mapping[int, Found]) -> RecalledUnit:
    hit = found.get(sequence)
    before, after = loaded.neighbours(sequence)
    same = () if hit is None else hit.same
    times = sorted(loaded.units[each].creation_time for each in (sequence, *same))
    return RecalledUnit(
        unit=loaded.units[sequence],
        score=None if hit is None else hit.score,
        signals={} if hit is None else hit.signals,
        count=len(times),
        times=times[-TIMES_MAX:],
        pre_id=before,
        next_id=after,
    )
