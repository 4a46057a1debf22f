"""The README's reference of tables and reports is the one that their comments make."""

from pathlib import Path

from api.analytics.reference import written_into
from store.analytics.describe import described_tables

README = Path(__file__).parents[3] / "README.md"


def test_the_readme_has_the_reference_of_now():
    text = README.read_text("utf-8")
    assert written_into(text) == text, "run `make reference`"


def test_every_table_and_column_of_the_model_says_what_it_means():
    tables = described_tables()
    assert [table.name for table in tables if not table.means] == []
    assert [(table.name, each.name) for table in tables for each in table.columns if not each.means] == []
