"""``cuebook``: all commands under one name."""

import click

from api.cli.analyst import query
from api.cli.authors import check, explain
from api.cli.convert import convert_file
from api.cli.migrate import migrate
from api.cli.play import play
from api.cli.serve import serve
from api.cli.sessions import sessions
from api.cli.strings import strings
from api.cli.structure import graph, schema
from api.cli.testing import test


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Begin with `cuebook play SCRIPT`. Settings also come from cuebook.toml and CUEBOOK_* variables.",
)
@click.version_option(package_name="cuebook", message="cuebook %(version)s")
def main() -> None:
    """Runs scripted conversations: write YAML, play it, check it, serve it, query what was said.

    Exit codes: 0 fine, 1 problems found, 2 wrong use or broken input.
    """


for command in (play, check, test, explain, convert_file, strings, graph, schema, serve, sessions, migrate, query):
    main.add_command(command)
