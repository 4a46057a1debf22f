"""Routes for users: global variables, the export of all data, and erasure."""

from typing import Annotated, TypeAlias

from litestar import delete, get, patch
from litestar.datastructures import ResponseHeader
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody
from litestar.response import Stream

from api.http.request import ApiRequest, UserId, query
from api.privacy.user_export import user_export, user_layer
from api.schemas.users import NewUserVariables, ReceiptView, UserExport, UserVariables
from api.sessions.user_variables import set_variables

Compact: TypeAlias = Annotated[
    bool,
    query("compact", "Also rewrite the file, so that the data is physically gone; this takes longer."),
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
    rows = await set_variables(services.store, services.clock, request.tenant, user_id, data.variables)
    return UserVariables(variables=user_layer(rows))


@get(
    "/users/{userId:str}/export",
    summary="Export a user",
    response_headers=[_DISPOSITION],
    responses={
        200: ResponseSpec(UserExport, generate_examples=False, description="All data of the user."),
    },
)
async def export_user(user_id: UserId, request: ApiRequest) -> Stream:
    """One JSON document: global variables with their history, and every session with its messages, variables, events,
    model calls, failures and migrations. It contains no keys and no settings.
    """
    document = user_export(request.services.store, request.tenant, user_id, request.services.clock())
    return Stream(document, media_type="application/json")


@delete("/users/{userId:str}", status_code=200, summary="Erase a user")
async def erase_user(user_id: UserId, request: ApiRequest, compact: Compact = False) -> ReceiptView:
    """Deletes all recorded data of the user and of the user's sessions after their running turns. The receipt is
    retained: it counts the deleted rows and does not name the user. A user who returns is a new user.
    """
    return ReceiptView.of(await request.services.deletion.erase(request.tenant, user_id, compact=compact))
