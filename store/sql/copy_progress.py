"""The table of a database that is being copied to: how far each table is, until all rows are there and compared."""

from typing import Any

from store.interface.errors import CopyUnfinished

CREATE = "CREATE TABLE copy_progress (name VARCHAR NOT NULL, rows_done BIGINT NOT NULL)"
READ = "SELECT name, rows_done FROM copy_progress"
DROP = "DROP TABLE copy_progress"
EXISTS = """SELECT count(*) > 0 FROM information_schema.tables
WHERE table_schema = current_schema() AND table_name = 'copy_progress'"""


def require_finished(found: list[tuple[Any, ...]], name: object) -> None:
    """Raise CopyUnfinished if a database has the table, whose rows would be taken for a whole database.

    `found` are the rows of EXISTS.
    """
    if found == [(True,)]:
        raise CopyUnfinished(
            f"{name} is an unfinished copy: run `cuebook copy` again with the same addresses, which goes on where it "
            "stopped; or delete it"
        )
