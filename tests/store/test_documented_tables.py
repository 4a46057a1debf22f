"""The pages about the databases name all of their tables and views."""

import re
from pathlib import Path

import psycopg
import pytest

from store.duckdb.database import Database
from tests.support.paths import ROOT

DATABASE, ENGINES = (ROOT / "docs" / page for page in ("explanation/database.md", "reference/engines.md"))


def named_in(page: Path) -> set[str]:
    return set(re.findall(r"`(\w+)`", page.read_text("utf-8")))


def tables_of_a_file(folder: Path) -> set[str]:
    database = Database.open(folder)
    found = database.cursor().execute(
        """SELECT table_name FROM information_schema.tables
        WHERE table_catalog = 'cuebook' AND table_schema = 'main'"""
    )
    names = {name for (name,) in found.fetchall()}
    database.close()
    return names


@pytest.mark.database_file
def test_of_the_database_file(tmp_path: Path) -> None:
    tables = tables_of_a_file(tmp_path)
    assert {"turns", "messages"} <= tables
    assert tables <= named_in(DATABASE)


def test_of_postgresql(tmp_path: Path, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        others = {name for (name,) in found.fetchall()} - tables_of_a_file(tmp_path)
    assert others <= named_in(ENGINES)
