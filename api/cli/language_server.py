"""``cuebook lsp``: the language server of scripts, for editors."""

import importlib.util
import os
import sys

import click

from api.cli.output import fail


@click.command(epilog="Example: Neovim runs cuebook lsp with vim.lsp.config('cuebook', {cmd = {'cuebook', 'lsp'}})")
def lsp() -> None:
    """Serve the Language Server Protocol on standard input and output, for editors.

    An editor starts it. It checks scripts, include files and test cases (*.case.yaml) as you type, completes keys and
    names, explains keys, variables and problems, finds and renames ids and variables, and applies fixes. Requires
    `pip install 'cuebook[lsp]'`; the how-to "Write scripts in an editor" has settings for editors.
    """
    if importlib.util.find_spec("pygls") is None:
        fail("the language server requires pygls: pip install 'cuebook[lsp]'")
    from api.language_server.features import create_server

    if sys.stdin.isatty():
        fail("an editor starts this command, and talks with it over standard input and output")
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever is printed must not be among the messages
    create_server().start_io(stdout=output)
