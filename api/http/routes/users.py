"""Routes for users: global variables, the export of all data, and erasure."""

from datetime import datetime
from typing import Annotated, Any, TypeAlias

from litestar import delete, get, patch
from litestar.datastructures import ResponseHeader
from litestar.params import JSONBody
from litestar.response import Stream

from api.errors import invalid_field, refusing_field
from api.http.request import ApiRequest, UserId, also, query
from api.privacy.user_export import user_export, user_layer
from api.schemas.users import NewUserVariables, ReceiptView, UserExport, UserVariables
from api.sessions.session_creation import require_user_zone
from api.sessions.turn_runner import values_of
from runtime.state.scopes import CELLS_MAX, WriteRefused, require_name
from scripts.expressions.values import infer_type
from scripts.model.base import ID_CHARS_MAX
from store.interface.rows import UserVariableRow
from store.store import Store

Compact: TypeAlias = Annotated[
    bool, query("compact", "Also rewrite the file, so that the data is physically gone; this takes longer.")
]
_DISPOSITION = ResponseHeader(
    name="Content-Disposition", value='attachment; filename="user.json"', description="A file to be saved."
)


@get("/users/{userId:str}/variables", summary="Read a user's global variables")
async def get_user_variables(user_id: UserId, request: ApiRequest) -> UserVariables:
    """Return the variables that are set, with type, source and time. A session shows their values at its last turn."""
    rows = await request.services.store.sessions.user_variables(request.tenant, user_id)
    return UserVariables(variables=user_layer(rows))


@patch("/users/{userId:str}/variables", summary="Set a user's global variables")
async def patch_user_variables(user_id: UserId, data: JSONBody[NewUserVariables], request: ApiRequest) -> UserVariables:
    """Sets several at once, all or none; null unsets one, other variables do not change. The next turn of each of the
    user's sessions uses the new values. Values are converted to the types that scripts declare.
    """
    services = request.services
    rows = await _set_variables(services.store, services.clock(), request.tenant, user_id, data.variables)
    return UserVariables(variables=user_layer(rows))


async def _set_variables(
    store: Store, now: datetime, tenant: str, user_id: str, variables: dict[str, Any]
) -> list[UserVariableRow]:
    """Set several variables, unset those that are null, and return all that are set, by name; all or none.

    The next turn of each of the user's sessions uses the new values. Raises ApiError REQUEST_INVALID.
    """
    if len(user_id) > ID_CHARS_MAX:
        raise invalid_field("userId", f"it has at most {ID_CHARS_MAX} characters")
    values = values_of(variables, "variables")
    for name in values:
        with refusing_field("variables", WriteRefused):
            require_name(name)
    require_user_zone(values, "variables")
    if not values:
        return await store.sessions.user_variables(tenant, user_id)
    rows = [
        UserVariableRow(tenant, user_id, name, value, infer_type(value), "api", now) for name, value in values.items()
    ]
    return await store.sessions.set_user_variables(rows, CELLS_MAX)


@get(
    "/users/{userId:str}/export",
    summary="Export a user",
    response_headers=[_DISPOSITION],
    responses=also(200, UserExport, "All data of the user."),
)
async def export_user(user_id: UserId, request: ApiRequest) -> Stream:
    """One JSON document: global variables with their history, every session with its messages, variables, events, calls
    of models and tools, failures and migrations, the devices that opened a link, and the memory. It contains no keys
    and no settings.
    """
    document = user_export(request.services.store, request.tenant, user_id, request.services.clock())
    return Stream(document, media_type="application/json")


@delete("/users/{userId:str}", status_code=200, summary="Erase a user")
async def erase_user(user_id: UserId, request: ApiRequest, compact: Compact = False) -> ReceiptView:
    """Deletes all recorded data of the user and of the user's sessions after their running turns. The receipt is
    retained: it counts the deleted rows and does not name the user. A user who returns is a new user.
    """
    return await request.services.deletion.erase(request.tenant, user_id, compact=compact)
