"""What is known of a user over all sessions: the global variables, and everything at once."""

from typing import Annotated, Any

from litestar import Request, Router, get, patch
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath
from litestar.response import Stream

from api.caller import tenant_of
from api.errors import described
from api.running import Running
from api.schemas.users import NewUserVariables, UserExport, UserVariables
from api.user_export import user_export, user_layer
from api.user_variables import set_variables

_EXAMPLES = [
    Example(summary="Two are set, one is unset", value={"variables": {"name": "Ana", "age": 34, "channel": None}})
]
_DISPOSITION = ResponseHeader(
    name="Content-Disposition", value='attachment; filename="user.json"', description="A file to be saved."
)


@get(
    "/users/{user_id:str}/variables",
    summary="Read a user's global variables",
    responses=described("REQUEST_INVALID", "SERVER_BUSY"),
)
async def get_user_variables(
    user_id: FromPath[str], running: NamedDependency[Running], request: Request[Any, Any, Any]
) -> UserVariables:
    """Those that are set, with type, source and time. A session shows them as its last turn left them."""
    return UserVariables(variables=user_layer(await running.record.user_variables(tenant_of(request), user_id)))


@patch(
    "/users/{user_id:str}/variables",
    summary="Set a user's global variables",
    description="Several at once, all or none; null unsets one, what is not named stays. The next turn of each of the "
    "user's sessions takes them as they are then. Scripts that declare a type take what fits it.",
    responses=described("REQUEST_INVALID", "UNSUPPORTED_MEDIA_TYPE", "PAYLOAD_TOO_LARGE", "SERVER_BUSY"),
)
async def patch_user_variables(
    user_id: FromPath[str],
    data: Annotated[NewUserVariables, BodyKwarg(examples=_EXAMPLES)],
    running: NamedDependency[Running],
    request: Request[Any, Any, Any],
) -> UserVariables:
    """Those that are set then."""
    rows = await set_variables(running.record, running.clock, tenant_of(request), user_id, data.variables)
    return UserVariables(variables=user_layer(rows))


@get(
    "/users/{user_id:str}/export",
    summary="Take out everything of a user",
    description="One JSON document: global variables with their history, and every session with its messages, "
    "variables, events, calls of models, failures and moves. It holds no keys and no settings.",
    response_headers=[_DISPOSITION],
    responses={
        200: ResponseSpec(UserExport, generate_examples=False, description="Everything that is recorded of the user."),
        **described("REQUEST_INVALID", "SERVER_BUSY"),
    },
)
async def export_user(
    user_id: FromPath[str], running: NamedDependency[Running], request: Request[Any, Any, Any]
) -> Stream:
    """Everything that is recorded of a user."""
    document = user_export(running.record, tenant_of(request), user_id, running.clock())
    return Stream(document, media_type="application/json")


router = Router("/api", route_handlers=[get_user_variables, patch_user_variables, export_user], tags=["Users"])
