"""The course of a simulation: the conversations of a share of the visitors, turn after turn in the order of time."""

import heapq
import random
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from api import rows
from api.simulation.conversation import Conversation, Happened, Rules, id_of
from api.simulation.stage import Offered, Stage
from api.simulation.visitors import Visitor, nature_of
from api.simulation.visits import Visits, Wish, visits_of, weighted
from store.rows import SessionRow

AGAIN = 0.5  # how often a visitor who returns comes for the same script
FOREIGN = 0.1  # how much less often for one in another language


class Share(Struct, frozen=True):
    """Which of the visitors: every `of`-th, from `number` on."""

    number: int = 0
    of: int = 1


class Course(Struct, frozen=True):
    """Everything that a simulation follows from."""

    wish: Wish
    offered: tuple[Offered, ...]
    rules: Rules


async def course_of(course: Course, share: Share) -> AsyncIterator[Happened]:
    """What happens to a share of the visitors, up to the end of the last day."""
    stage, visitors = Stage(course.offered), dict[int, Visitor]()
    beginnings = _beginnings(course.wish, visits_of(course.wish), share)
    upcoming = next(beginnings, None)
    under_way: list[tuple[datetime, int, Conversation]] = []
    count = 0
    while upcoming is not None or under_way:
        if upcoming is not None and not (under_way and under_way[0][0] <= upcoming[0]):
            begins_at, user = upcoming
            visitor = visitors.get(user) or visitors.setdefault(user, _visitor(course.wish.seed, user))
            conversation, count = _begun(course, stage, visitor, begins_at), count + 1
            number = count
            upcoming = next(beginnings, None)
        else:
            _, number, conversation = heapq.heappop(under_way)
        yield await conversation.take()
        if conversation.due is not None and conversation.due < course.wish.until:
            heapq.heappush(under_way, (conversation.due, number, conversation))


def _beginnings(wish: Wish, visits: Visits, share: Share) -> Iterator[tuple[datetime, int]]:
    mine = visits.users % share.of == share.number
    for at_s, user in zip(visits.at_s[mine], visits.users[mine], strict=True):
        yield wish.since + timedelta(seconds=float(at_s)), int(user)


def user_id_of(seed: int, user: int) -> str:
    """The id of a simulated visitor, which no other seed has."""
    return f"sim{seed}-{user + 1:06}"


def session_id_of(seed: int, user: int, number: int) -> str:
    """The id of a visitor's session, counted from 1."""
    return id_of(random.Random(f"{seed}:{user}:{number}:session"))  # noqa: S311  (chance, not secrets)


def _visitor(seed: int, user: int) -> Visitor:
    chance = random.Random(f"{seed}:{user}")  # noqa: S311
    return Visitor(user, user_id_of(seed, user), nature_of(chance))


def _begun(course: Course, stage: Stage, visitor: Visitor, begins_at: datetime) -> Conversation:
    """A visitor's next session."""
    seed = course.wish.seed
    visitor.sessions += 1
    chance = random.Random(f"{seed}:{visitor.number}:{visitor.sessions}")  # noqa: S311
    visitor.last_script = _script_for(stage, visitor, chance)
    script = stage.offered[visitor.last_script].at(begins_at).row
    session_id = session_id_of(seed, visitor.number, visitor.sessions)
    session = SessionRow(
        tenant=course.rules.tenant,
        session_id=session_id,
        user_id=visitor.user_id,
        key=None,
        script_uuid=script.script_uuid,
        script_id=script.script_id,
        script_version=script.version,
        digest=script.digest,
        locale=stage.locale(script.digest, visitor.nature.language),
        seed=rows.seed_of(session_id),
        metadata={"simulated": seed},
        created_at=begins_at,
        idempotency_key=None,
    )
    return Conversation(course.rules, stage, visitor, session, chance)


def _script_for(stage: Stage, visitor: Visitor, chance: random.Random) -> int:
    """The place of the script that a visitor comes for."""
    if visitor.last_script >= 0 and chance.random() < AGAIN:
        return visitor.last_script
    liked = visitor.nature.language
    shares = [
        draw * (1.0 if liked in languages else FOREIGN)
        for draw, languages in zip(stage.draws, stage.languages, strict=True)
    ]
    return weighted(shares, chance.random())
