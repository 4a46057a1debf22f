"""The page of all commands."""

from collections.abc import Iterator

import click

from api.cli.main import main


def commands() -> str:
    """Return the page of all commands with their options, as `--help` prints them."""
    parts = [
        "# Commands",
        "",
        "After reading this page you know every command with its arguments and options, as",
        "`cuebook COMMAND --help` prints them.",
        "",
        "Exit codes: 0 success, 1 problems found, 2 wrong usage or invalid input. Documents go to standard output,",
        "messages and progress to standard error. Tables are separated by tabs when the output is not a terminal.",
        "",
    ]
    for path, command in _walk("cuebook", main):
        context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100)
        level = "##" if path.count(" ") < 2 else "###"
        parts += [f"{level} {path}", "", "~~~", command.get_help(context).rstrip(), "~~~", ""]
    return "\n".join(parts)


def _walk(path: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _walk(f"{path} {name}", command)
