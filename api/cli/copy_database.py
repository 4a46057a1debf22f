"""``cuebook copy``: copy a whole database between a data folder and PostgreSQL."""

import click
from rich.progress import MofNCompleteColumn, TimeElapsedColumn

from api.cli.output import errors, failing
from api.cli.progress import progress_bar
from store.interface.addresses import without_password
from store.interface.errors import StoreError
from store.open_store import postgres_driver


@click.command("copy", epilog="Example: cuebook copy --from cuebook-data --to postgresql://me@db.example.com/cuebook")
@click.option("--from", "source", required=True, help="Data folder, or `postgresql://…`, to read.")
@click.option("--to", "target", required=True, help="New data folder, or empty PostgreSQL database, to write.")
def copy_database(source: str, target: str) -> None:
    """Copy a whole database: from a data folder to PostgreSQL, or back.

    Stop the servers on both before. A copy that was interrupted goes on where it stopped when the same command runs
    again; at the end all rows of both are compared. The key files of the data folder are not copied: give them to the
    servers on the new database.
    """
    with failing(StoreError), postgres_driver():
        from store.copying import copy_database as copy_rows

    with failing(StoreError), progress_bar("copying", MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        counts = copy_rows(
            source, target, lambda what, done, total: bar.update(description=what, completed=done, total=total)
        )
    shown = without_password(target) if "://" in target else target
    errors.print(f"Copied {sum(counts.values()):,} rows to {shown}; both have the same rows.")
