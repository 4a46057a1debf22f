"""Sets a user's global variables outside of a session."""

from typing import Any

from api.errors import invalid_field, refusing_field
from api.sessions.session_creation import require_user_zone
from api.sessions.turn_runner import values_of
from runtime.state.ports import Clock
from runtime.state.scopes import CELLS_MAX, WriteRefused, require_name
from scripts.expressions.values import infer_type
from scripts.model.base import ID_CHARS_MAX
from store.interface.rows import UserVariableRow
from store.store import Store


async def set_variables(
    store: Store, clock: Clock, tenant: str, user_id: str, variables: dict[str, Any]
) -> list[UserVariableRow]:
    """Set several variables, unset those that are null, and return all that are set, by name; all or none.

    The next turn of each of the user's sessions uses the new values. Raises ApiError REQUEST_INVALID.
    """
    if len(user_id) > ID_CHARS_MAX:
        raise invalid_field("userId", f"it has at most {ID_CHARS_MAX} characters")
    values, now = values_of(variables, "variables"), clock()
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
