"""How commands reach the record: through the server where one holds the file, else by the same routes in process."""

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, BinaryIO
from urllib.parse import quote

import httpx
import msgspec

from api.access.access import TENANT_HEADER
from api.app import create_app
from api.models import close_model, make_model
from api.server import ADDRESS_FILE, KEY_FILE, configure_logging
from api.settings import Settings, SettingsInvalid
from runtime.models.offline import OfflineModel
from runtime.ports import Model
from store.errors import DatabaseLocked
from store.record import Record

TIMEOUT_S = 30.0
WRITE_TIMEOUT_S = 150.0  # above what a turn may take


class OutOfReach(Exception):
    """Neither the file nor a server that holds it can be reached; the message says what to do."""


class Answered(Exception):
    """The API refused; the message is its own."""


class Reach:
    """A client of the API."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def get(self, path: str, **parameters: str | int | list[str] | None) -> object:
        """The JSON answer of a GET. Raises Answered, OutOfReach."""
        given = {name: value for name, value in parameters.items() if value is not None}
        try:
            answer = await self._client.get(path, params=given)
        except httpx.TransportError as error:
            raise OutOfReach(f"the server at {self._client.base_url} does not answer ({error})") from error
        if answer.is_error:
            raise Answered(answer.json()["error"]["message"])
        return answer.json()

    async def get_bytes(self, path: str, /, **parameters: str) -> bytes:
        """The document that a GET answers with. Raises Answered, OutOfReach."""
        try:
            answer = await self._client.get(path, params=parameters, timeout=WRITE_TIMEOUT_S)
        except httpx.TransportError as error:
            raise OutOfReach(f"the server at {self._client.base_url} does not answer ({error})") from error
        if answer.is_error:
            raise Answered(answer.json()["error"]["message"])
        return answer.content

    async def post_bytes(self, path: str, content: bytes, media_type: str, /, **parameters: str | None) -> object:
        """The JSON answer of a POST of a document. Raises Answered, OutOfReach."""
        given = {name: value for name, value in parameters.items() if value is not None}
        headers = {"Content-Type": media_type}
        try:
            answer = await self._client.post(
                path, content=content, params=given, headers=headers, timeout=WRITE_TIMEOUT_S
            )
        except httpx.TransportError as error:
            raise OutOfReach(f"the server at {self._client.base_url} does not answer ({error})") from error
        if answer.is_error:
            raise Answered(answer.json()["error"]["message"])
        return answer.json()

    async def post(self, path: str, body: Mapping[str, object]) -> object:
        """The JSON answer of a POST. Raises Answered, OutOfReach."""
        try:
            answer = await self._client.post(path, json=body, timeout=WRITE_TIMEOUT_S)
        except httpx.TransportError as error:
            raise OutOfReach(f"the server at {self._client.base_url} does not answer ({error})") from error
        if answer.is_error:
            raise Answered(answer.json()["error"]["message"])
        return answer.json()

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        timeout_s: float = WRITE_TIMEOUT_S,
        **parameters: str | int | None,
    ) -> Any:
        """The JSON answer of a request, None where it is empty. Raises Answered, OutOfReach."""
        given = {name: value for name, value in parameters.items() if value is not None}
        try:
            answer = await self._client.request(method, path, json=body, params=given, timeout=timeout_s)
        except httpx.TransportError as error:
            raise OutOfReach(f"the server at {self._client.base_url} does not answer ({error})") from error
        if answer.is_error:
            raise Answered(answer.json()["error"]["message"])
        return answer.json() if answer.content else None

    async def download(self, path: str, output: BinaryIO) -> None:
        """Writes the answer of a GET as it comes. Raises Answered, OutOfReach also where it breaks off."""
        try:
            async with self._client.stream("GET", path, timeout=WRITE_TIMEOUT_S) as answer:
                if answer.is_error:
                    raise Answered(msgspec.json.decode(await answer.aread())["error"]["message"])
                async for chunk in answer.aiter_bytes():
                    output.write(chunk)
        except httpx.TransportError as error:
            raise OutOfReach(f"the server at {self._client.base_url} does not answer ({error})") from error


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
    settings: Settings, *, writing: bool = False, managing: bool = False, tenant: str | None = None
) -> AsyncIterator[Reach]:
    """Opens the way to the record, or to that of another tenant; without a server, for reading unless it is for
    `writing`, or for `managing`, which needs no model, and makes the record where there is none.

    Raises OutOfReach, StoreError, and what a model of the settings raises.
    """
    if not settings.data.exists() and not managing:
        raise OutOfReach(f"there is no record in {settings.data}; name its folder with --data")
    try:
        record = Record.open(settings.data, read_only=not (writing or managing))
    except DatabaseLocked:
        address, key = _server(settings)
        async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT_S, headers=_headers(key, tenant)) as client:
            yield Reach(client)
        return
    configure_logging("error")  # standard output is for documents
    model: Model = OfflineModel()
    try:
        if writing:
            model = make_model(settings)
        key = secrets.token_urlsafe(32)
        app = create_app(settings, record, model, operator_key=key)
        transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
        headers = _headers(key, tenant)
        async with httpx.AsyncClient(transport=transport, base_url="http://in-process", headers=headers) as client:
            yield Reach(client)
    except SettingsInvalid as error:
        raise OutOfReach(str(error)) from error
    finally:
        await record.close()
        await close_model(model)
