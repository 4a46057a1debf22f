"""A user's global variables, set by an application outside of any session."""

from typing import Any

from api.asking import values_of
from api.errors import ApiError
from runtime.ports import Clock
from runtime.scopes import CELLS_MAX, WriteRefused, require_name
from scripts.nodes import ID_CHARS_MAX
from scripts.values import infer_type
from store.record import Record
from store.rows import UserVariableRow


async def set_variables(
    record: Record, clock: Clock, tenant: str, user_id: str, given: dict[str, Any]
) -> list[UserVariableRow]:
    """Sets several, unsets those that are null; all that are set then, by name. All of it happens, or nothing.

    The next turn of each of the user's sessions takes them as they are then. Raises ApiError REQUEST_INVALID.
    """
    if len(user_id) > ID_CHARS_MAX:
        raise ApiError("REQUEST_INVALID", f"a user's id has at most {ID_CHARS_MAX} characters")
    values, now = values_of(given, "variables"), clock()
    for name in values:
        try:
            require_name(name)
        except WriteRefused as refused:
            raise ApiError("REQUEST_INVALID", f"variables: {refused}") from refused
    if not values:
        return await record.user_variables(tenant, user_id)
    rows = [
        UserVariableRow(tenant, user_id, name, value, infer_type(value), "api", now) for name, value in values.items()
    ]
    return await record.set_user_variables(rows, CELLS_MAX)
