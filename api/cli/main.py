"""``cuebook``: all commands under one name, each loaded when it is called for."""

import importlib
from collections.abc import Mapping

import click

COMMANDS: Mapping[str, str] = {
    "play": "api.cli.play:play",
    "check": "api.cli.authors:check",
    "test": "api.cli.testing:test",
    "explain": "api.cli.authors:explain",
    "convert": "api.cli.convert:convert_file",
    "strings": "api.cli.strings:strings",
    "prompts": "api.cli.prompts:prompts",
    "graph": "api.cli.structure:graph",
    "schema": "api.cli.structure:schema",
    "serve": "api.cli.serve:serve",
    "sessions": "api.cli.sessions:sessions",
    "memory": "api.cli.memory.group:memory",
    "users": "api.cli.users:users",
    "migrate": "api.cli.migrate:migrate",
    "replay": "api.cli.replay:replay_sessions",
    "simulate": "api.cli.simulate:simulate_traffic",
    "keys": "api.cli.keys:keys",
    "query": "api.cli.analytics.query:query",
    "report": "api.cli.analytics.report:report",
    "snapshot": "api.cli.analytics.snapshot:snapshot",
    "export": "api.cli.analytics.export:export",
    "compact": "api.cli.compact:compact",
    "retention": "api.cli.retention:retention",
    "verify": "api.cli.verify:verify",
}
"""Where each command is: module and name."""


class Commands(click.Group):
    """Loads no more than the command that runs: checking a script needs no server."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Begin with `cuebook play SCRIPT`. Settings also come from cuebook.toml and CUEBOOK_* variables.",
)
@click.version_option(package_name="cuebook", message="cuebook %(version)s")
def main() -> None:
    """Runs scripted conversations: write YAML, play it, check it, serve it, query what was said.

    Exit codes: 0 fine, 1 problems found, 2 wrong use or broken input.
    """


if __name__ == "__main__":
    main()
