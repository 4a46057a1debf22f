"""The headers and query parameters that several routes take."""

from typing import Annotated, TypeAlias

from litestar.openapi.spec import Example
from litestar.params import HeaderParameter, QueryParameter

from api.asking import Condition
from api.errors import ApiError
from api.id_checks import check_header

KEY_CHARS_MAX = 255
PAGE_MAX = 200

IdempotencyKey: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        max_length=KEY_CHARS_MAX,
        required=False,
        description="A key of your choice. A second request with it gets the answer of the first.",
        examples=[Example(value="7f3d1c52")],
    ),
]
IfMatch: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match",
        required=False,
        description="The ETag (the turn) the message answers; 412 if the session has moved on.",
        examples=[Example(value='"3"')],
    ),
]
Prefer: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="Prefer",
        required=False,
        description="`busy=queue` waits for its turn where another message is being answered, `busy=reject` does not.",
        examples=[Example(value="busy=queue")],
    ),
]
Accept: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="Accept",
        required=False,
        description="`text/event-stream` for a stream; JSON is the default.",
        examples=[Example(value="text/event-stream")],
    ),
]
LastEventId: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="Last-Event-ID",
        required=False,
        description="The `id` of the last frame there was; a stream goes on right after it.",
        examples=[Example(value="0b8a4a4e-5f0e-4c39-9e57-6f1f3a1c2d4e:12")],
    ),
]
Debug: TypeAlias = Annotated[
    bool, QueryParameter(name="debug", description="With `debugInfo`: the model calls of the turn.")
]
WithEvents: TypeAlias = Annotated[
    bool, QueryParameter(name="events", description="With `events`: everything that happened in the turn, in order.")
]
Limit: TypeAlias = Annotated[int, QueryParameter(name="limit", ge=1, le=PAGE_MAX, description="How many at most.")]
Masked: TypeAlias = Annotated[
    bool | None,
    QueryParameter(
        name="masked",
        required=False,
        description="Without personal values; `false`, for who may have them, is how it is unless this is asked for.",
    ),
]
Cursor: TypeAlias = Annotated[
    str | None, QueryParameter(name="cursor", required=False, description="`nextCursor` of the page before.")
]


def condition(key: str | None, if_match: str | None, prefer: str | None) -> Condition:
    """What a request asks of its turn. Raises ApiError REQUEST_INVALID."""
    if key is not None and not key.strip():
        raise ApiError("REQUEST_INVALID", "Idempotency-Key is empty")
    if key is not None:
        check_header("Idempotency-Key", key)
    return Condition(key, _expected_turn(if_match), "busy=queue" in (prefer or "").replace(" ", ""))


def seconds_to_wait(prefer: str | None) -> int:
    """The `wait=SECONDS` of a `Prefer` header (RFC 7240); 0 where there is none."""
    for preference in (prefer or "").split(","):
        name, _, value = preference.replace(" ", "").partition("=")
        if name.lower() == "wait" and value.isascii() and value.isdigit():
            return int(value.lstrip("0")[:9] or "0")  # that many digits are above all bounds
    return 0


def _expected_turn(if_match: str | None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    number = if_match.strip().removeprefix("W/").strip('"')
    if not number.isascii() or not number.isdigit() or len(number) > 18:
        raise ApiError("REQUEST_INVALID", 'If-Match takes the ETag of a session, such as "3"')
    return int(number)
