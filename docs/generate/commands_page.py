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
        "Exit codes: 0 success, also of a search or list without results; 1 problems found; 2 wrong usage or invalid",
        "input. Documents go to standard output, messages and progress to standard error. Tables are separated by tabs",
        "when the output is not a terminal.",
        "",
    ]
    root = click.Context(main, info_name="cuebook", terminal_width=100, **main.context_settings)
    for context in _walk(root, main):
        path = context.command_path
        level = "##" if path.count(" ") < 2 else "###"
        parts += [f"{level} {path}", "", "~~~", context.get_help().rstrip(), "~~~", ""]
    return "\n".join(parts)


def _walk(parent: click.Context, group: click.Group) -> Iterator[click.Context]:
    """Yield the contexts of the commands of a group, as they are when a command is called."""
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is None or command.hidden:
            continue
        context = click.Context(command, parent=parent, info_name=name)
        yield context
        if isinstance(command, click.Group):
            yield from _walk(context, command)
