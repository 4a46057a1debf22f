"""What of a session is personal: the variables its scripts say so of, their values, the messages that tell them."""

from collections.abc import AsyncIterator, Mapping

from msgspec import Struct

from api.catalogue import Catalogue
from api.privacy.mask import Mask
from scripts.personal import asking, choices, personal_names
from scripts.values import Value
from store.record import Record
from store.rows import HappenedRow, MessageRow, SessionRow

TURNS_A_PAGE = 100
QUOTED_CHARS_MIN = 4
"""Of a message that is hidden as a whole; a shorter one (yes, no) is not looked for in what others say."""


class Hidden(Struct, frozen=True):
    """What is masked of one session, whoever reads it."""

    mask: Mask
    messages: Mapping[int, str]
    """By the number of a message that is hidden as a whole: the variable it tells of."""
    turns: frozenset[int]
    """The turns with such a message: what else quotes it is hidden too."""


class _Telling(Struct, frozen=True):
    """A message that tells a personal value, in whatever words."""

    number: int
    turn: int
    name: str
    content: str


async def hidden_of(record: Record, catalogue: Catalogue, session: SessionRow) -> Hidden:
    """What is personal in a session, by every version of its script that it ran on and the one published last.

    Raises ApiError SCRIPT_NOT_FOUND, StoreError.
    """
    tenant, session_id = session.tenant, session.session_id
    moves = await record.migrations(tenant, session_id)
    latest = await record.latest_published(tenant, session.script_id)
    digests = {session.digest, *(digest for move in moves for digest in (move.from_digest, move.digest))}
    digests |= {latest.digest} if latest is not None else set()
    scripts = [(await catalogue.program(tenant, digest)).script for digest in digests]
    names = frozenset[str]().union(*map(personal_names, scripts))
    if not names:
        return Hidden(Mask(names, ()), {}, frozenset())
    asked = {action: name for script in scripts for action, name in asking(script, names).items()}
    values: list[tuple[str, Value]] = [each for script in scripts for each in choices(script, names)]
    values += [found async for found in _values(record, session, names)]
    telling = [found async for found in _telling(record, session, Mask(names, values), asked)]
    values += [(each.name, each.content) for each in telling if len(each.content) >= QUOTED_CHARS_MIN]
    return Hidden(
        Mask(names, values),
        {each.number: each.name for each in telling},
        frozenset(each.turn for each in telling),
    )


async def _values(record: Record, session: SessionRow, names: frozenset[str]) -> AsyncIterator[tuple[str, Value]]:
    """Every value that variables of these names had in the session, and those of the user's own elsewhere."""
    after = -1
    while True:
        rows = await record.variable_history(session.tenant, session.session_id, after_turn=after, limit=TURNS_A_PAGE)
        if not rows:
            break
        for row in rows:
            if row.name in names:
                yield row.name, row.old
                yield row.name, row.new
        after = rows[-1].turn
    offset = 0
    while writes := await record.user_history(session.tenant, session.user_id, offset=offset, limit=TURNS_A_PAGE):
        for write in writes:
            if write.name in names:
                yield write.name, write.old
                yield write.name, write.new
        offset += len(writes)


async def _telling(
    record: Record, session: SessionRow, mask: Mask, asked: Mapping[str, str]
) -> AsyncIterator[_Telling]:
    """The user's messages that tell a personal value in other words than it is kept in, or may: those with which such a
    value came and that do not spell it, and answers to a question for one in which no value is known again.
    """
    after = 0
    while rows := await record.happened(session.tenant, session.session_id, after_seq=after, limit=TURNS_A_PAGE):
        for row in rows:
            for message in row.messages:
                name = _told_by(row, message, mask, asked) if message.role == "user" else None
                if name is not None:
                    yield _Telling(message.seq, row.turn, name, message.content)
        after = rows[-1].events[-1].seq


def _told_by(row: HappenedRow, message: MessageRow, mask: Mask, asked: Mapping[str, str]) -> str | None:
    for write in row.variables:
        is_told = write.name in mask.names and write.source != "api" and write.new is not None
        if is_told and not mask.tells(message.content, write.new):
            return write.name
    if message.content.strip() and mask.text(message.content) == message.content:
        return asked.get(message.action_id or "")
    return None
