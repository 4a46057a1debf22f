"""The command `cuebook`: its subcommands, each imported when it runs."""

import importlib
from collections.abc import Mapping
from typing import NamedTuple

import click


class CommandEntry(NamedTuple):
    """Where in `api.cli` a command is defined (``module:name``), and its line in the list of commands."""

    target: str
    help: str


COMMANDS: Mapping[str, CommandEntry] = {
    "play": CommandEntry("play:play", "Play a script in the terminal; nothing is recorded."),
    "check": CommandEntry("check:check", "Check scripts and test cases; report each problem with its fix."),
    "test": CommandEntry("testing:test", "Run test cases (*.case.yaml) and the examples of detectors."),
    "explain": CommandEntry("check:explain", "Explain a diagnostic code, with an example before and after the fix."),
    "convert": CommandEntry("convert:convert_file", "Convert a script to the current language (`cuebook: 1`)."),
    "strings": CommandEntry("strings:strings", "Write or update the string table of a script for a translation."),
    "prompts": CommandEntry("prompts:prompts", "List, copy and check prompt templates."),
    "graph": CommandEntry("graph:graph", "Draw the phases, topics and actions of a script."),
    "schema": CommandEntry("graph:schema", "Print the JSON Schema of scripts, for editors."),
    "lsp": CommandEntry("language_server:lsp", "Help editors to write scripts (Language Server Protocol)."),
    "serve": CommandEntry("serve:serve", "Serve sessions over HTTP."),
    "sessions": CommandEntry("sessions:sessions", "List, search, change, export, import and delete sessions."),
    "timers": CommandEntry("timers:timers", "List, fire or arm what sessions will do by themselves."),
    "memory": CommandEntry("memory.group:memory", "List, search and maintain what is stored about users."),
    "users": CommandEntry("users:users", "Read, export or erase everything that is recorded about a user."),
    "migrate": CommandEntry("migrate:migrate", "Move running sessions to another version of their script."),
    "replay": CommandEntry("replay:replay_sessions", "Replay recorded sessions and report where they differ."),
    "simulate": CommandEntry("simulate:simulate_traffic", "Generate simulated sessions to try reports or test loads."),
    "keys": CommandEntry("access:keys", "Create, list and revoke API keys."),
    "links": CommandEntry("access:links", "Create, list and revoke links that open a script in browsers."),
    "query": CommandEntry("analytics.queries:query", "Run a read-only SQL query over the analytics tables."),
    "report": CommandEntry("analytics.queries:report", "Run a built-in report."),
    "snapshot": CommandEntry("analytics.export:snapshot", "Write all analytics tables and reports to a DuckDB file."),
    "export": CommandEntry("analytics.export:export", "Export the analytics tables as a folder of Parquet files."),
    "backups": CommandEntry("database:backups", "Create, list, delete and restore backups of the database."),
    "copy": CommandEntry("database:copy_database", "Copy a whole database to PostgreSQL, or back to a folder."),
    "compact": CommandEntry("database:compact", "Rewrite the database file so that deleted data is physically gone."),
    "retention": CommandEntry("database:retention", "Redact or delete sessions whose retention time is over."),
    "verify": CommandEntry("database:verify", "Verify that the database is complete and consistent."),
}
"""All commands, in the order in which help lists them."""


class LazyGroup(click.Group):
    """Import only the module of the command that runs, and none to list them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(importlib.import_module(f"api.cli.{module}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as unknown:  # Click suggests only commands that are imported
            raise click.NoSuchCommand(unknown.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. The message of a file that the system refuses, as its name is too long, ends it."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.filename is None:
                raise
            return importlib.import_module("api.cli.output").fail(f"{error.filename}: {error.strerror}")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Begin with `cuebook play SCRIPT`. Settings also come from cuebook.toml and CUEBOOK_* variables.",
)
@click.version_option(package_name="cuebook", message="cuebook %(version)s")
def main() -> None:
    """Run scripted conversations: write, check, play, test, serve and analyse them.

    Exit codes: 0 success, 1 problems found, 2 wrong usage or invalid input.
    """


if __name__ == "__main__":
    main()
