"""Writes a recorded session as a test case: what the user did, what was said, and the replies of models and tools."""

import math
from collections.abc import Sequence

from api.replay.recorded_session import RecordedSession, RecordedStep
from api.replay.replay_session import NotRepeatable, record_again
from api.schemas.timestamps import utc_text
from runtime.models.cassette_file import Replies, replies_layout
from runtime.state.inputs import ChoiceInput, FormInput, Reply, Start, TimerDue
from runtime.state.program import ZONE_VARIABLE, Program
from runtime.state.tool_ports import ToolReply
from runtime.tools.replies_file import tools_as_written
from scripts.expressions.values import Value
from scripts.parse.folder import CASE_SUFFIX
from scripts.yaml.writer import Item, Items, Layout, Record, document, plain

TURNS_MAX = 500


def case_file_name(session: RecordedSession) -> str:
    """Return a name for the case file of a session, beside its script."""
    return f"session-{session.head.session_id[:8]}{CASE_SUFFIX}"


async def session_case(session: RecordedSession) -> str:
    """Return the text of a case file that repeats a session, with its messages word by word.

    Raises NotRepeatable, SessionUnknown, StateUnreadable, ApiError.
    """
    if session.head.turn >= TURNS_MAX:
        raise NotRepeatable(f"the session has {session.head.turn + 1} turns; a case may have {TURNS_MAX}")
    steps = [step async for step in session.steps()]
    turns = [_turn(steps, number) for number in range(len(steps))]
    replies = await record_again(session, steps)
    case = _case(session, await session.program(0), steps, turns, replies)
    cases = Items((Item(case),), flow=False)
    return document(Record((("script", f"{session.head.script_id}.yaml"), ("cases", cases)), flow=False))


def _case(
    session: RecordedSession, program: Program, steps: Sequence[RecordedStep], turns: Sequence[Layout], replies: Replies
) -> Record:
    first, last = steps[0], steps[-1]
    given = {name: cell.value for name, cell in first.others.items() if cell is not None} | first.before.start_variables
    tools = _tools(steps)
    has_zone = bool(first.before.timezone or program.script.timezone or ZONE_VARIABLE in given)
    zone = first.before.timezone if has_zone else session.source.timezone
    fields: tuple[tuple[str, Layout, bool], ...] = (
        ("name", f"as in session {session.head.session_id[:8]}", True),
        ("seed", session.head.seed, True),
        ("now", utc_text(first.row.started_at), True),
        ("locale", first.before.locale, True),
        ("timezone", zone, zone not in {"", "UTC"}),
        ("variables", plain(given), bool(given)),
        ("replies", replies_layout(replies), bool(replies)),
        ("tools", plain(tools), bool(tools)),
        ("turns", Items(tuple(map(Item, turns)), flow=False), True),
        ("end", Record((("status", last.after.execution_status),)), True),
        ("warnings", None, True),
    )
    return Record(tuple((name, layout) for name, layout, is_needed in fields if is_needed), flow=False)


def _turn(steps: Sequence[RecordedStep], number: int) -> Record:
    """Return a turn of the case. Raises NotRepeatable."""
    step = steps[number]
    if number and step.others:
        raise NotRepeatable(f"before turn {number} another session changed a global variable")
    said = [message.content for message in step.row.messages if message.role == "assistant"]
    expect: tuple[str, Layout] = ("expect", plain(list(said)))
    match step.input:
        case Start():
            return Record((expect,))
        case Reply():
            return Record((("say", step.input.content), expect))
        case ChoiceInput():
            return Record((("choose", step.input.choice), expect))
        case FormInput():
            return Record((("form", plain(dict(step.input.values))), expect))
        case TimerDue() if step.input.timer_id:
            raise NotRepeatable(f"in turn {number} a timer was fired by hand, before or after its moment")
        case TimerDue():
            seconds = (step.row.started_at - steps[number - 1].row.started_at).total_seconds()
            return Record((("pass", f"{max(math.ceil(seconds), 1)} seconds"), expect))
        case None:
            raise NotRepeatable(
                f"turn {number} moved the session to another version of its script, or could not start it"
            )
        case _:
            raise NotRepeatable(f"in turn {number} the application changed the session; fork it before that turn")


def _tools(steps: Sequence[RecordedStep]) -> dict[str, Value]:
    replies: dict[str, list[ToolReply]] = {}
    for step in steps:
        for call in step.tool_calls:
            replies.setdefault(call.called.tool, []).append(ToolReply(call.answered.result, call.answered.failure))
    return tools_as_written(replies)
