"""How commands reach the record: through the server where one holds the file, else by the same routes in process."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, BinaryIO, TypeAlias, TypeVar
from urllib.parse import quote

import httpx

from api.access.access import TENANT_HEADER
from api.app import create_app
from api.cli.output import fail
from api.client.in_process import InProcess
from api.embedded import running
from api.models import ModelUnknown, close_model, make_model
from api.server import ADDRESS_FILE, KEY_FILE, configure_logging
from api.settings import Settings, SettingsInvalid
from runtime.models.cassette import ScriptedFileInvalid
from runtime.models.offline import OfflineModel
from runtime.ports import Model
from store.errors import DatabaseLocked, StoreError
from store.private import restrict_umask
from store.record import Record

TIMEOUT_S = 30.0
WRITE_TIMEOUT_S = 150.0  # above what a turn may take

_Parameter: TypeAlias = str | int | list[str] | None

T = TypeVar("T")


class OutOfReach(Exception):
    """Neither the file nor a server that holds it can be reached; the message says what to do."""


class Answered(Exception):
    """The API refused; the message is its own, and so are the code and what else it says."""

    def __init__(self, message: str, code: str = "", details: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


class Reach:
    """A client of the API. Every request raises Answered where it is refused, and OutOfReach where nobody answers."""

    def __init__(self, client: httpx.AsyncClient, *, is_served: bool) -> None:
        self._client = client
        self.is_served = is_served
        """Whether a server answers; else it is this very process, and nothing goes on once the command ends."""

    async def get(self, path: str, /, **parameters: _Parameter) -> Any:
        """The JSON answer of a GET."""
        return (await self._ask("GET", path, parameters, TIMEOUT_S)).json()

    async def get_bytes(self, path: str, /, **parameters: _Parameter) -> bytes:
        """The document that a GET answers with."""
        return (await self._ask("GET", path, parameters, WRITE_TIMEOUT_S)).content

    async def post_bytes(self, path: str, content: bytes, media_type: str, /, **parameters: _Parameter) -> Any:
        """The JSON answer of a POST of a document."""
        headers = {"Content-Type": media_type}
        return (await self._ask("POST", path, parameters, WRITE_TIMEOUT_S, content=content, headers=headers)).json()

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        /,
        *,
        timeout_s: float = WRITE_TIMEOUT_S,
        **parameters: _Parameter,
    ) -> Any:
        """The JSON answer of a request, None where it is empty."""
        answer = await self._ask(method, path, parameters, timeout_s, json=body)
        return answer.json() if answer.content else None

    async def answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        /,
        *,
        timeout_s: float = WRITE_TIMEOUT_S,
        **parameters: _Parameter,
    ) -> httpx.Response:
        """The whole answer of a request, of whatever media type."""
        return await self._ask(method, path, parameters, timeout_s, json=body)

    async def download(
        self,
        path: str,
        output: BinaryIO,
        tell: Callable[[int, int], None] = lambda done, total: None,
        /,
        **parameters: _Parameter,
    ) -> None:
        """Writes the answer of a GET as it comes, and tells how many bytes there are, of how many; 0 where that is not
        known. Raises OutOfReach also where it breaks off.
        """
        given, written = _given(parameters), 0
        with self._heard():
            async with self._client.stream("GET", path, params=given, timeout=WRITE_TIMEOUT_S) as answer:
                if answer.is_error:
                    await answer.aread()
                    raise _refused(answer)
                total = int(answer.headers.get("Content-Length", 0))
                async for chunk in answer.aiter_bytes():
                    output.write(chunk)
                    written += len(chunk)
                    tell(written, total)

    async def _ask(
        self, method: str, path: str, parameters: Mapping[str, _Parameter], timeout_s: float, **sent: Any
    ) -> httpx.Response:
        """An answer that is no error."""
        with self._heard():
            answer = await self._client.request(method, path, params=_given(parameters), timeout=timeout_s, **sent)
        if answer.is_error:
            raise _refused(answer)
        return answer

    @contextmanager
    def _heard(self) -> Iterator[None]:
        """Raises OutOfReach where there is no answer, or half of one."""
        try:
            yield
        except httpx.TransportError as error:
            raise OutOfReach(f"the server at {self._client.base_url} does not answer ({error})") from error


def _given(parameters: Mapping[str, _Parameter]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _refused(answer: httpx.Response) -> Answered:
    error = answer.json()["error"]
    return Answered(error["message"], error["code"], error["details"])


def _server(settings: Settings) -> tuple[str, str]:
    """Where the server that holds the record says it is, else where the settings have it; and its own key, which it
    keeps beside the record for those who may read there.
    """
    try:
        return (settings.data / ADDRESS_FILE).read_text("utf-8"), (settings.data / KEY_FILE).read_text("utf-8")
    except OSError:
        return f"http://{settings.host}:{settings.port}", ""


def _headers(key: str, tenant: str | None) -> dict[str, str]:
    sent = {"Authorization": f"Bearer {key}"} if key else {}
    return sent if tenant is None else sent | {TENANT_HEADER: quote(tenant)}


@asynccontextmanager
async def reach(
    settings: Settings,
    *,
    writing: bool = False,
    managing: bool = False,
    working: bool = False,
    tenant: str | None = None,
) -> AsyncIterator[Reach]:
    """Opens the way to the record, or to that of another tenant; without a server, for reading unless it is for
    `writing`, or for `managing`, which needs no model, and makes the record where there is none. With `working` it is
    worked on memories meanwhile, as a server does it.

    Raises OutOfReach, StoreError, and what a model of the settings raises.
    """
    if not settings.data.exists() and not managing:
        raise OutOfReach(f"there is no record in {settings.data}; name its folder with --data")
    restrict_umask()  # what a command writes of a record is for whoever asked for it
    try:
        record = Record.open(settings.data, read_only=not (writing or managing))
    except DatabaseLocked:
        address, key = _server(settings)
        async with httpx.AsyncClient(base_url=address, headers=_headers(key, tenant)) as client:
            yield Reach(client, is_served=True)
        return
    configure_logging("error")  # standard output is for documents
    model: Model = OfflineModel()
    try:
        if writing:
            model = make_model(settings)
        key = secrets.token_urlsafe(32)
        app = create_app(settings, record, model, operator_key=key, serves=False)
        client = httpx.AsyncClient(transport=InProcess(app), base_url="http://cuebook", headers=_headers(key, tenant))
        async with AsyncExitStack() as stack:
            if working:
                await stack.enter_async_context(running(app))
            yield Reach(await stack.enter_async_context(client), is_served=False)
    except SettingsInvalid as error:
        raise OutOfReach(str(error)) from error
    finally:
        await record.close()
        await close_model(model)


def run(work: Coroutine[Any, Any, T]) -> T:
    """What the work of a command comes to; ends the command where the record cannot be had, or refuses."""
    try:
        return asyncio.run(work)
    except (OutOfReach, Answered, StoreError, ModelUnknown, ScriptedFileInvalid) as error:
        fail(str(error))
