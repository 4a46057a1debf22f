"""``cuebook graph`` and ``cuebook schema``: what a script looks like, and what one may look like."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import click
from rich.markup import escape

from api.cli.output import errors, fail, json_text
from scripts.folder import read_path
from scripts.graph import Graph, build_graph
from scripts.pictures.mermaid import mermaid
from scripts.pictures.svg import svg
from scripts.schema import json_schema

Style: TypeAlias = Literal["mermaid", "svg", "json"]

_ENDINGS: Mapping[str, Style] = {
    ".svg": "svg",
    ".json": "json",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    "": "mermaid",
}

_WRITERS: Mapping[Style, Callable[[Graph], str]] = {"mermaid": mermaid, "svg": svg, "json": json_text}

_to_file = click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file [standard output]."
)


@click.command(
    epilog="Examples:\n\n  cuebook graph intake.yaml -o intake.svg\n\n  cuebook graph intake.yaml > intake.mmd"
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--format",
    "style",
    type=click.Choice(["mermaid", "svg", "json"]),
    help="How to draw it [by the ending of the file, else mermaid].",
)
@_to_file
def graph(script: Path, style: Style | None, output: Path | None) -> None:
    """Draws a script: its phases, topics and actions, and the ways between them.

    `svg` is a picture, `mermaid` a text that editors and code hosts draw, `json` the graph itself. Exits with 2 where
    the script has errors.
    """
    chosen = style or _style_of(output)
    reading = read_path(script)
    if reading.script is None:
        for problem in reading.errors:
            errors.print(f"[red]error[/] {escape(str(problem))}\n    {escape(problem.fix)}")
        sys.exit(2)
    _write(_WRITERS[chosen](build_graph(reading.script)), output)


def _style_of(output: Path | None) -> Style:
    """What the ending of a file asks for; ends the command where it asks for something else."""
    ending = output.suffix.lower() if output is not None else ""
    if ending not in _ENDINGS:
        fail(f"{output}: a graph is drawn as .svg, .mmd (Mermaid) or .json; --format draws one of these to any file")
    return _ENDINGS[ending]


@click.command(epilog="Example: cuebook schema -o cuebook.schema.json")
@_to_file
def schema(output: Path | None) -> None:
    """Prints the JSON Schema of scripts in the native form, for editors.

    With the YAML language server, an editor completes and checks a script that begins with the line
    `# yaml-language-server: $schema=cuebook.schema.json`.
    """
    _write(json_text(json_schema()), output)


def _write(text: str, output: Path | None) -> None:
    text = text.rstrip("\n")
    if output is None:
        click.echo(text)
        return
    try:
        output.write_text(f"{text}\n", "utf-8")
    except OSError as error:
        fail(f"{output}: {error.strerror or error}")
    errors.print(f"wrote {escape(str(output))}")
