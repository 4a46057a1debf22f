"""Reading the variables of the global scope: a user's, in every session."""

from store.fetch import Cursor, fetch, utc
from store.rows import UserVariableRow


def user_variables(cursor: Cursor, tenant: str, user_id: str) -> list[UserVariableRow]:
    """Every variable of a user that is set, by name."""
    select = f"""SELECT * {utc("updated_at")} FROM user_variables
        WHERE tenant = $tenant AND user_id = $user_id ORDER BY name"""  # noqa: S608
    return fetch(cursor, UserVariableRow, select, {"tenant": tenant, "user_id": user_id})
