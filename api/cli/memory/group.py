"""``cuebook memory``: the group of its commands."""

import click

from api.cli.memory.export_import import export_memory, import_memory
from api.cli.memory.maintenance import forget, jobs, reembed, status, summarise
from api.cli.memory.search import search
from api.cli.memory.units import add, groups, list_units, pin, remove, restore, show

_UNITS = (add, list_units, show, pin, remove, search, groups, restore)
_MAINTENANCE = (summarise, forget, reembed, jobs, status, export_memory, import_memory)


@click.group(commands=(*_UNITS, *_MAINTENANCE))
def memory() -> None:
    """List, search, extend and maintain the memories of users, also while a server runs.

    Every user has one memory. It contains the messages of the user's sessions automatically, in one group per session.
    `cuebook memory add` adds notes to collections, which are groups too.
    """
