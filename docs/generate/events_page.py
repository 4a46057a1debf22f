"""The page of the kinds of events."""

from collections.abc import Iterable, Mapping
from typing import get_args

import msgspec
from texts import camel

from api.schemas.sessions import MessageView
from runtime.state.events import Body, Message, VariableChanged
from store.interface.event_fields import EVENT_FIELDS
from store.interface.rows import VariableRow


def events() -> str:
    """Return the page of the kinds of events, with their fields as the API shows them."""
    return "\n".join(
        (
            "# Events",
            "",
            "After reading this page you know the events of a session and their fields, as",
            "`GET /api/sessions/:id/events` and streams contain them. [Stream answers](../how-to/streaming.md) shows",
            "how to follow them.",
            "",
            "Each event is `{seq, kind, data}`; `seq` counts the events of the session without gaps. A field without a",
            "value may be absent.",
            "",
            "| kind | meaning | fields of `data` | remaining after redaction |",
            "|---|---|---|---|",
            *(_event(each) for each in get_args(Body)),
            "",
            "Streams also contain these frames, which are not recorded:",
            "",
            "| frame | content |",
            "|---|---|",
            "| `message.delta` | `message`, `actionId`, `text`: more text of the message with that number |",
            "| `message.reset` | `message`: the text of that message, and of all later ones, is retracted |",
            "| `message.proactive` | what the session said by itself, or a person in its place, before the last"
            " event of that turn: `turn`, `cause`, `messages`; of a timer also `timer` and `timerId` |",
            "| `position` | before the last event of a turn: the turn, the status and the position after it |",
            "| `turn` | the ordinary answer to the request, once the turn is on disk |",
            "| `error` | why the turn failed, in the usual shape of errors, with its `status` |",
            "",
        )
    )


# The kinds that the API fills in from other rows: the struct with their fields, and the fields that redaction empties.
_SHOWN_AS: Mapping[type, tuple[type[msgspec.Struct], frozenset[str]]] = {
    Message: (MessageView, frozenset({"content", "metadata"})),
    VariableChanged: (VariableRow, frozenset({"old", "new"})),
}
_NOT_SHOWN = {"wait.begins"}  # recorded, and of no use to clients


def _event(body: type[msgspec.Struct]) -> str:
    kind = str(body.__struct_config__.tag)
    shown, emptied = _SHOWN_AS.get(body, (body, frozenset()))
    fields = shown.__struct_fields__
    recorded = fields if body in _SHOWN_AS else EVENT_FIELDS[kind]
    remaining = [each for each in recorded if each not in emptied | _NOT_SHOWN]
    meaning = " ".join((body.__doc__ or "").split("\n\n")[0].split())
    return f"| `{kind}` | {meaning} | {_listed(fields)} | {_listed(remaining)} |"


def _listed(fields: Iterable[str]) -> str:
    """Return fields as the API names them: `a.b` is a field of an object, `a[].b` one of each object in a list."""
    return ", ".join(f"`{'.'.join(camel(part) for part in field.split('.'))}`" for field in fields)
