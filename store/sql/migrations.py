"""Schema migrations of a database: files `NNNN_name.sql` in a package, each applied once, in order."""

import hashlib
from collections.abc import Iterable
from importlib import resources
from typing import Any, NamedTuple

from store.interface.errors import DatabaseTooNew, MigrationChanged


class Migration(NamedTuple):
    """One file of the folder `migrations` of a package, named `NNNN_name.sql`."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, as stored in the database that it was applied to."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def known_migrations(package: str) -> list[Migration]:
    """Return the migrations of a package, ordered by number."""
    files = [file for file in resources.files(package).joinpath("migrations").iterdir() if file.name.endswith(".sql")]
    return sorted(
        Migration(int(number), name, file.read_text(encoding="utf-8"))
        for file in files
        for number, _, name in [file.name.removesuffix(".sql").partition("_")]
    )


APPLIED = "SELECT number, name, checksum FROM migrations"


def pending_migrations(found: Iterable[tuple[Any, ...]], known: list[Migration], database: object) -> list[Migration]:
    """Return the migrations that a database needs; `found` are the rows of APPLIED.

    Raises DatabaseTooNew, MigrationChanged.
    """
    applied: dict[int, tuple[str, str]] = {number: (name, checksum) for number, name, checksum in found}
    newest = max((migration.number for migration in known), default=0)
    if applied and max(applied) > newest:
        name, _ = applied[max(applied)]
        raise DatabaseTooNew(
            f"{database} was written by a newer version (migration {max(applied)}, {name}); upgrade this one"
        )
    for migration in known:
        if migration.number in applied and applied[migration.number][1] != migration.checksum:
            raise MigrationChanged(
                f"migration {migration.number} ({migration.name}) has changed since it was applied to {database}"
            )
    return [migration for migration in known if migration.number not in applied]
