"""Database access for commands: through the server that has the file open, else through its routes in this process."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from rich.markup import escape

from api.cli.output import errors, fail, failing
from api.logs.configuration import configure_logging
from api.schemas.ids import TENANT_HEADER, in_path
from api.settings import ADDRESS_FILE, KEY_FILE, Settings, SettingsInvalid
from store.interface.errors import DatabaseLocked, StoreError
from store.interface.private_files import restrict_umask
from store.open_store import open_store
from store.store import Store

if TYPE_CHECKING:
    from runtime.state.ports import Model

PAGE = 200  # rows of a request for a list
TIMEOUT_S = 30.0
WRITE_TIMEOUT_S = 150.0  # longer than the longest turn


T = TypeVar("T")


class BackendUnavailable(Exception):
    """Neither the database file nor a server that has it open is available; the message says what to do."""


class RequestRefused(Exception):
    """The API answered with an error; message, code and details are the API's."""

    def __init__(self, message: str, code: str = "", context: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.context = context or {}


class Backend:
    """Client of the API for commands.

    Every method raises RequestRefused for an error answer, and BackendUnavailable if the connection fails.
    """

    def __init__(self, client: httpx.AsyncClient, *, is_served: bool) -> None:
        self._client = client
        self.is_served = is_served
        """Whether a server answers; otherwise this process does, and background work stops when the command ends."""

    @property
    def address(self) -> str:
        """Return the address of the server that answers."""
        return str(self._client.base_url).rstrip("/")

    async def get(self, path: str, /, **parameters: Any) -> Any:
        """Return the JSON answer of a GET request."""
        return (await self.answer("GET", path, timeout_s=TIMEOUT_S, **parameters)).json()

    async def rows(self, path: str, /, **parameters: Any) -> list[Any]:
        """Return the rows of all pages of a list."""
        found: list[Any] = []
        cursor = None
        while True:
            page = await self.get(path, limit=PAGE, cursor=cursor, **parameters)
            found += page["data"]
            cursor = page["nextCursor"]
            if cursor is None:
                return found

    async def sessions(self) -> list[Any]:
        """Return all sessions; by activity, those that continue meanwhile would be on none of the pages."""
        return await self.rows("/api/sessions", sort="created")

    async def send(
        self, method: str, path: str, body: Mapping[str, object] | bytes | None = None, /, **options: Any
    ) -> Any:
        """Send a request, with the options of `answer`, and return its JSON answer, or None if it has no body."""
        answer = await self.answer(method, path, body, **options)
        return answer.json() if answer.content else None

    async def answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | bytes | None = None,
        /,
        *,
        timeout_s: float = WRITE_TIMEOUT_S,
        media_type: str = "application/json",
        **parameters: Any,
    ) -> httpx.Response:
        """Send a request and return the complete response, of any media type; `body` is JSON or a document."""
        content = msgspec.json.encode(body) if isinstance(body, Mapping) else body
        headers = {} if content is None else {"Content-Type": media_type}
        query = without_none(parameters)
        with self._connection_errors():
            answer = await self._client.request(
                method, path, params=query, timeout=timeout_s, content=content, headers=headers
            )
        if answer.is_error:
            raise _refusal(answer)
        return answer

    async def download(
        self,
        path: str,
        output: BinaryIO,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        /,
        **parameters: Any,
    ) -> None:
        """Stream the answer of a GET request to `output`.

        `on_progress` receives the bytes written and the bytes in all (0 if unknown). Raises BackendUnavailable also
        if the connection breaks before the end.
        """
        query, written = without_none(parameters), 0
        with self._connection_errors():
            async with self._client.stream("GET", path, params=query, timeout=WRITE_TIMEOUT_S) as answer:
                if answer.is_error:
                    await answer.aread()
                    raise _refusal(answer)
                total = int(answer.headers.get("Content-Length", 0))
                async for chunk in answer.aiter_bytes():
                    output.write(chunk)
                    written += len(chunk)
                    on_progress(written, total)

    @contextmanager
    def _connection_errors(self) -> Iterator[None]:
        """Raise BackendUnavailable in place of httpx's errors for a missing or incomplete answer."""
        try:
            yield
        except httpx.TransportError as error:
            raise BackendUnavailable(f"the server at {self._client.base_url} does not answer ({error})") from error


def without_none(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that are set."""
    return {name: value for name, value in parameters.items() if value is not None}


def _refusal(answer: httpx.Response) -> RequestRefused:
    error = answer.json()["error"]
    return RequestRefused(error["message"], error["code"], error["context"])


def _server(settings: Settings) -> tuple[str, str]:
    """Return the address and the API key of the server that has the database open.

    The server writes both to files beside the database, for users who may read that folder. No other address is tried:
    a server there may have another database. Raises BackendUnavailable.
    """
    try:
        return (settings.data / ADDRESS_FILE).read_text("utf-8"), (settings.data / KEY_FILE).read_text("utf-8")
    except FileNotFoundError as error:
        raise BackendUnavailable(
            f"the database in {settings.data} is in use by a program that is no server, or by one that starts or "
            "stops; try again once it has started or ended"
        ) from error
    except OSError as error:
        raise BackendUnavailable(f"{error.filename} cannot be read: {error.strerror}") from error


def _headers(key: str, tenant: str | None) -> dict[str, str]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return headers if tenant is None else headers | {TENANT_HEADER: quote(tenant)}


@asynccontextmanager
async def backend(
    settings: Settings,
    *,
    writing: bool = False,
    managing: bool = False,
    working: bool = False,
    tenant: str | None = None,
) -> AsyncIterator[Backend]:
    """Connect to the database through its server, or open it in this process if no server runs.

    In this process the database is opened read-only, except with `writing` or `managing`; `managing` needs no model
    and creates the database if there is none. With `working`, memory maintenance runs in the background, as in a
    server. `tenant` is the tenant whose data is used.

    Raises BackendUnavailable, StoreError.
    """
    if tenant == "":  # such as by an unset variable of the shell
        raise BackendUnavailable("--tenant is empty; name the tenant, or leave the option out")
    store = _open(settings, read_only=not (writing or managing), creating=managing)
    if store is None:
        address, key = _server(settings)
        # without the proxy of the environment: the server is on this machine, and the key is for it alone
        async with httpx.AsyncClient(base_url=address, headers=_headers(key, tenant), trust_env=False) as client:
            yield Backend(client, is_served=True)
        return
    async with _in_process(settings, store, has_model=writing, working=working, tenant=tenant) as api:
        yield api


@asynccontextmanager
async def _in_process(
    settings: Settings, store: Store, *, has_model: bool, working: bool, tenant: str | None
) -> AsyncIterator[Backend]:
    """Serve the routes in this process; the server's modules are imported here, as most commands need none of them."""
    from api.app import create_app
    from api.client.in_process import InProcess
    from api.embedded import running
    from api.models.server_model import ModelUnknown, close_model, make_model
    from runtime.models.cassette_file import ScriptedFileInvalid
    from runtime.models.offline_model import OfflineModel

    model: Model = OfflineModel()
    try:
        if has_model:
            model = make_model(settings)
        key = secrets.token_urlsafe(32)
        app = create_app(settings, store, model, operator_key=key, serves=False)
        client = httpx.AsyncClient(transport=InProcess(app), base_url="http://cuebook", headers=_headers(key, tenant))
        async with AsyncExitStack() as stack:
            if working:
                await stack.enter_async_context(running(app))
            yield Backend(await stack.enter_async_context(client), is_served=False)
    except (SettingsInvalid, ModelUnknown, ScriptedFileInvalid) as error:
        raise BackendUnavailable(str(error)) from error
    finally:
        await store.close()
        await close_model(model)


@asynccontextmanager
async def open_for_reading(settings: Settings) -> AsyncIterator[Store | None]:
    """Open the database for reading in this process, or yield None where a server holds it.

    Raises BackendUnavailable, StoreError.
    """
    store = _open(settings, read_only=True, creating=False)
    try:
        yield store
    finally:
        if store is not None:
            await store.close()


def _open(settings: Settings, *, read_only: bool, creating: bool) -> Store | None:
    """Open the database, or return None where a server holds it. Raises BackendUnavailable, StoreError."""
    with suppress(OSError):  # opening the database reports the cause
        if settings.database is None and not settings.data.exists() and not creating:
            raise BackendUnavailable(f"there is no database in {settings.data}; name its folder with --data")
    configure_logging("error")  # standard output is for documents, so also while the database is opened
    restrict_umask()  # files that a command writes hold personal data: only the current user may read them
    try:
        return open_store(settings.data, settings.database_url, read_only=read_only)
    except DatabaseLocked:
        return None


async def read_answer(settings: Settings, path: str, /, *, tenant: str | None = None, **parameters: Any) -> Any:
    """Return the JSON answer of one GET request, for which the database is opened read-only."""
    async with backend(settings, tenant=tenant) as api:
        return await api.get(path, **parameters)


async def send_each(
    settings: Settings,
    method: str,
    folder: str,
    ids: Sequence[str],
    body: Mapping[str, object] | None,
    done: str,
    **parameters: Any,
) -> None:
    """Send one request for each id to its path below `folder`, and print what is `done`.

    At the end, end the command with the ids that the API refused.
    """
    refused = []
    async with backend(settings, writing=True) as api:
        for each in ids:
            try:
                await api.send(method, f"{folder}/{in_path(each)}", body, **parameters)
                errors.print(f"{done} {escape(each)}")
            except RequestRefused as error:
                refused.append(f"{each}: {error}")
    if refused:
        fail("; ".join(refused))


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the work of a command and return its result; end the command if the database or the API reports an error."""
    with failing(BackendUnavailable, RequestRefused, StoreError):
        return asyncio.run(work)
