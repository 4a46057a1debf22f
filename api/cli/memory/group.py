"""``cuebook memory``: its commands under one name."""

import click

from api.cli.memory import doctor, files, groups, recalling, units, work


@click.group()
def memory() -> None:
    """Looks at memories, adds to them and takes care of them, also while a server runs.

    Every user has one memory. What is said in sessions is in it by itself, in a group for each session; `add` puts
    notes into collections, which are groups as well.
    """


for command in (
    *units.COMMANDS,
    *recalling.COMMANDS,
    *groups.COMMANDS,
    *work.COMMANDS,
    *files.COMMANDS,
    *doctor.COMMANDS,
):
    memory.add_command(command)
