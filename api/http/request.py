"""What routes read from a request: its services and sender, and the parameters and headers that several share."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from litestar import Request, Response, post
from litestar.datastructures import ResponseHeader
from litestar.exceptions import ValidationException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import HeaderParameter, PathParameter, QueryParameter
from msgspec.structs import replace

from api.auth.principal import CALLER, Principal, principal_of
from api.auth.request_checks import check_header
from api.errors import invalid_field
from api.http.services import Services, current
from api.schemas.base import NUMBER_MAX, PageView, View
from api.sessions.sse import EVENT_STREAM
from api.sessions.turn_runner import Preconditions
from store.interface.pages import cursor_of, position_of

T = TypeVar("T")
L = TypeVar("L", bound=PageView)

JSON: Final = "application/json"
TAKES: Final = "takes"
"""The key of `opt` under which a handler names the content types it accepts."""


@dataclass(frozen=True)
class _TimeParameter(QueryParameter):
    tz: bool = True


def query(name: str, description: str, **bounds: Any) -> QueryParameter:
    """Document a query parameter; `bounds` are those of its value, such as `ge`."""
    return QueryParameter(name=name, description=description, **bounds)


def number(name: str, description: str, least: int = 0) -> QueryParameter:
    """Document a query parameter that is the number of a message, event, turn or version."""
    return query(name, description, ge=least, le=NUMBER_MAX)


def moment(name: str, description: str) -> QueryParameter:
    """Document a query parameter that is a time with its offset."""
    return _TimeParameter(name=name, description=description)


KEY_CHARS_MAX = 255
PAGE_MAX = 200

SessionId: TypeAlias = Annotated[str, PathParameter(name="sessionId")]
UserId: TypeAlias = Annotated[str, PathParameter(name="userId")]
ScriptId: TypeAlias = Annotated[str, PathParameter(name="scriptId")]
UnitId: TypeAlias = Annotated[str, PathParameter(name="unitId")]
GroupId: TypeAlias = Annotated[str, PathParameter(name="groupId")]
JobId: TypeAlias = Annotated[str, PathParameter(name="jobId")]
DraftId: TypeAlias = Annotated[str, PathParameter(name="draftId", description="The id of the script.")]
FileName: TypeAlias = Annotated[str, PathParameter(name="fileName")]
BackupId: TypeAlias = Annotated[str, PathParameter(name="backupId")]
DashboardId: TypeAlias = Annotated[str, PathParameter(name="dashboardId")]
QueryId: TypeAlias = Annotated[str, PathParameter(name="queryId")]
ReviewId: TypeAlias = Annotated[str, PathParameter(name="reviewId")]
LinkId: TypeAlias = Annotated[str, PathParameter(name="linkId")]
ParticipantId: TypeAlias = Annotated[str, PathParameter(name="participantId")]
KeyId: TypeAlias = Annotated[str, PathParameter(name="keyId")]
WebhookId: TypeAlias = Annotated[str, PathParameter(name="webhookId")]
DeliveryId: TypeAlias = Annotated[str, PathParameter(name="deliveryId")]


def header(name: str, description: str, example: str, *, max_length: int | None = None) -> HeaderParameter:
    """Document a header of requests."""
    examples = [Example(value=example)]
    return HeaderParameter(name=name, description=description, examples=examples, max_length=max_length)


IdempotencyKey: TypeAlias = Annotated[
    str | None,
    header(
        "Idempotency-Key",
        "A key of your choice. A second request with it gets the answer of the first.",
        "7f3d1c52",
        max_length=KEY_CHARS_MAX,
    ),
]
IfMatch: TypeAlias = Annotated[
    str | None,
    header("If-Match", "The ETag (the turn) that the message answers; 412 if the session is at another turn.", '"3"'),
]
IfRevision: TypeAlias = Annotated[
    str | None,
    header(
        "If-Match",
        'The ETag (the revision) that the change began from; `"0"`: there is no draft. 412 if it differs.',
        '"1764104400000"',
    ),
]
ETAG = ResponseHeader(
    name="ETag", documentation_only=True, value='"3"', description="The session's turn, for `If-Match`."
)
REVISION_ETAG = ResponseHeader(
    name="ETag", documentation_only=True, value='"1764104400000"', description="The revision, for `If-Match`."
)
Prefer: TypeAlias = Annotated[
    str | None,
    header(
        "Prefer", "While the session answers another message, `busy=queue` waits and `busy=reject` fails.", "busy=queue"
    ),
]
Accept: TypeAlias = Annotated[
    str | None, header("Accept", "`text/event-stream` for a stream; JSON is the default.", "text/event-stream")
]
LastEventId: TypeAlias = Annotated[
    str | None,
    header(
        "Last-Event-ID",
        "The `id` of the last frame received; the stream continues after it.",
        "0b8a4a4e-5f0e-4c39-9e57-6f1f3a1c2d4e:12",
    ),
]
Debug: TypeAlias = Annotated[bool, query("debug", "With the prompts and replies of models.")]
WithEvents: TypeAlias = Annotated[
    bool, query("events", "With `events`: everything that happened in the turn, in order.")
]
Limit: TypeAlias = Annotated[int, query("limit", "The greatest number of items.", ge=1, le=PAGE_MAX)]
Masked: TypeAlias = Annotated[
    bool | None,
    query("masked", "Without personal values. The default is `false` with the role `reader` or `admin`, else `true`."),
]
Cursor: TypeAlias = Annotated[str | None, query("cursor", "`nextCursor` of the previous page.")]


DECODERS_MAX = 2_000
"""Decoders of bodies that are cached: those of all route tables of a process."""


class ApiRequest(Request[Any, Any, Any]):
    """A request with the services that answer it."""

    __slots__ = ()

    @property
    def services(self) -> Services:
        """Return the services of the application that received the request."""
        return current.get()

    @property
    def principal(self) -> Principal:
        """Return the sender of the request."""
        return principal_of(self)

    async def json(self) -> Any:
        """Return the body as the type that its route takes. Raises ValidationException.

        Litestar would convert it as it converts parameters, which are texts, so that `"false"` and 0 were false too.
        """
        annotation, body = self.route_handler.parsed_fn_signature.parameters["data"].annotation, await self.body()
        try:
            return _decoder(annotation).decode(body)
        except msgspec.ValidationError as error:
            problem, _, place = str(error).partition(" - at ")
            if place.startswith(_OF_NAME):
                problem, place = f"a name in it: {problem}", place.removeprefix(_OF_NAME)
            field = place.strip("`").removeprefix("$.")
            if _ENTRY in field:
                field = _with_name(field, str(error), body, annotation)
            found = {"key": field or "data", "message": problem, "source": "body"}
            raise ValidationException("the body is not valid", extra=[found]) from error

    @property
    def tenant(self) -> str:
        """Return the tenant of the sender; every read and write is limited to it."""
        principal: Principal = self.scope["state"][CALLER]
        return principal.tenant


_OF_NAME = "`key` in "
_ENTRY = "[...]"
"""How msgspec writes the place of a value in an object whose names are free, without the name."""
_NAMES_MAX = 1_000


def _with_name(field: str, problem: str, body: bytes, annotation: Any) -> str:
    """Return the place of an error with the name that it lacks: that of the first entry that has this problem alone."""
    before, _, after = field.partition(_ENTRY)
    try:
        whole = entries = msgspec.json.decode(body)
    except msgspec.ValidationError:  # a number that is out of range
        return before
    for index, name in re.findall(r"\[(\d+)\]|([^.\[\]$]+)", before):
        entries = entries[int(index) if index else name]
    for name, value in list(entries.items())[:_NAMES_MAX] if isinstance(entries, dict) else ():
        entries.clear()
        entries[name] = value
        try:
            msgspec.convert(whole, annotation)
        except msgspec.ValidationError as error:
            if str(error) == problem:
                return f"{before}.{name}{after}"
    return before


@lru_cache(DECODERS_MAX)
def _decoder(annotation: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(annotation)


def location(description: str) -> ResponseHeader:
    """Document the `Location` header of a route; the value only says that it is a text."""
    return ResponseHeader(name="Location", documentation_only=True, value="", description=description)


def link(page: str) -> ResponseHeader:
    """Document the `Link` header of a list, which a response has while there is such a page."""
    return ResponseHeader(
        name="Link", documentation_only=True, value="", description=f"The URL of the {page} page, if there is one."
    )


def respond_at(number: int, view: T, *, created: str = "") -> Response[T]:
    """Return a response whose `ETag` is a turn or revision; 201 with the URL of what the request created."""
    headers = {"ETag": f'"{number}"'} | ({"Location": created} if created else {})
    return Response(view, status_code=201 if created else None, headers=headers)


def page_of(kind: type[L], rows: Sequence[View], limit: int, cursor: str | None, **others: Any) -> L:
    """Return a page of a short list, all of which is at hand; a cursor is the number of rows before the page.

    Raises CursorInvalid.
    """
    begin = max(position_of(cursor, int), 0) if cursor is not None else 0
    end = begin + limit
    return kind(data=rows[begin:end], next_cursor=cursor_of(end) if end < len(rows) else None, **others)


def also(status: int, body: type[Any] | None, description: str) -> dict[int, ResponseSpec]:
    """Document a further response of a route."""
    return {status: ResponseSpec(body, generate_examples=False, description=description)}


def creating(
    path: str, summary: str, what: str, *headers: ResponseHeader, **options: Any
) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    """Declare a route that creates something and answers with its URL, that of `what`."""
    response_headers = [*headers, location(f"The URL of {what}.")]
    return post(path, status_code=201, summary=summary, response_headers=response_headers, **options)


def condition(idempotency_key: str | None, if_match: str | None = None, prefer: str | None = None) -> Preconditions:
    """Return the preconditions of a turn. Raises ApiError REQUEST_INVALID."""
    if idempotency_key is not None:
        if not idempotency_key.strip():
            raise invalid_field("Idempotency-Key", "it is empty")
        check_header("Idempotency-Key", idempotency_key)
    return Preconditions(idempotency_key, turn_of(if_match), _queues(prefer))


def creation_condition(request: ApiRequest, idempotency_key: str | None, if_match: str | None = None) -> Preconditions:
    """Return the preconditions of a request that creates a session. An idempotency key of a principal that is bound to
    a user is valid for this user only, and says nothing about the keys of others. Raises ApiError REQUEST_INVALID.
    """
    checked, user_id = condition(idempotency_key, if_match), principal_of(request).user_id
    if idempotency_key is None or user_id is None:
        return checked
    return replace(checked, idempotency_key=f"user {len(user_id)} {user_id} {idempotency_key}")


def _queues(prefer: str | None) -> bool | None:
    """Return whether a `Prefer` header lets a request wait for a busy session; None if it does not say."""
    preferences = (prefer or "").lower().replace(" ", "").split(",")
    return True if "busy=queue" in preferences else False if "busy=reject" in preferences else None


def number_of(cursor: str | None, first: int) -> int:
    """Return the number in the cursor of a numbered list; `first` without a cursor. Raises ApiError REQUEST_INVALID."""
    if cursor is None:
        return first
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 10:
        raise invalid_field("cursor", "it does not belong to this list")
    return int(cursor)


def seconds_to_wait(prefer: str | None) -> int:
    """Return the `wait=SECONDS` of a `Prefer` header (RFC 7240); 0 without it."""
    for preference in (prefer or "").split(","):
        name, _, value = preference.replace(" ", "").partition("=")
        if name.lower() == "wait" and value.isascii() and value.isdigit():
            return int(value.lstrip("0")[:9] or "0")  # 9 digits exceed all bounds
    return 0


def turn_of(if_match: str | None) -> int | None:
    """Return the turn of a session in an `If-Match` header. Raises ApiError."""
    return _number_of(if_match, 'a session, such as "3"')


def revision_of(if_match: str | None) -> int | None:
    """Return the revision of a draft or dashboard in an `If-Match` header. Raises ApiError."""
    return _number_of(if_match, 'the answer that was changed, such as "1764104400000"')


def _number_of(if_match: str | None, what: str) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    number = if_match.strip().removeprefix("W/").strip('"')
    if not number.isascii() or not number.isdigit() or len(number) > 18:
        raise invalid_field("If-Match", f"it takes the ETag of {what}")
    return int(number)


RANGES_MAX = 50
ACCEPTS_MAX = 64
"""`Accept` headers whose meaning is retained; a client sends the same one with each request."""

_QUALITY = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


@lru_cache(ACCEPTS_MAX)
def wants_stream(accept: str | None) -> bool:
    """Return whether an `Accept` header prefers an event stream.

    Of two equal qualities the more specific range counts; JSON is the default (RFC 9110, 12.5.1).
    """
    ranges = dict(_range(each) for each in (accept or "").split(",")[:RANGES_MAX])
    stream = _wish(ranges, EVENT_STREAM)
    return stream[0] > 0 and stream > _wish(ranges, JSON)


def _wish(ranges: dict[str, float], media_type: str) -> tuple[float, int]:
    """Return the quality of a media type and the specificity of the range that sets it."""
    kind = media_type.split("/")[0]
    for closeness, name in ((2, media_type), (1, f"{kind}/*"), (0, "*/*")):
        if name in ranges:
            return ranges[name], closeness
    return 0.0, 0


def _range(text: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    quality = next((each.removeprefix("q=") for each in parameters if each.startswith("q=")), "1")
    return name, float(quality) if _QUALITY.fullmatch(quality) else 0.0
