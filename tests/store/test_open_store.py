"""What opening a PostgreSQL database says where its driver is not installed."""

import pytest

from store.interface.errors import DatabaseUnreadable
from store.open_store import postgres_driver


def test_a_missing_driver_is_named_with_its_command() -> None:
    message = r"needs the package psycopg; .*pip install 'cuebook\[postgres\]'"
    with pytest.raises(DatabaseUnreadable, match=message), postgres_driver():
        raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")
