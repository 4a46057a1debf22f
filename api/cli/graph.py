"""``cuebook graph`` and ``cuebook schema``: the graph of a script, and the JSON Schema of scripts."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import click
from msgspec import Struct
from rich.markup import escape

from api.cli.options import EXISTING_FILE, to_file
from api.cli.output import errors, fail, json_text, write_text
from api.cli.script_arguments import script_of
from scripts.graph.graph import Graph, build_graph
from scripts.graph.mermaid import mermaid
from scripts.graph.svg import svg
from scripts.model.script import IncludeFile, Script, StringTable
from scripts.parse.folder import read_path
from scripts.yaml.json_schema import json_schema

GraphFormat: TypeAlias = Literal["mermaid", "svg", "json"]

_ENDINGS: Mapping[str, GraphFormat] = {
    ".svg": "svg",
    ".json": "json",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    "": "mermaid",
}

_WRITERS: Mapping[GraphFormat, Callable[[Graph], str]] = {"mermaid": mermaid, "svg": svg, "json": json_text}


@click.command(
    epilog="Examples:\n\n  cuebook graph intake.yaml -o intake.svg\n\n  cuebook graph intake.yaml > intake.mmd"
)
@click.argument("script", type=EXISTING_FILE)
@click.option(
    "--format",
    "style",
    type=click.Choice(["mermaid", "svg", "json"]),
    help="Output format [by the suffix of the file, else mermaid].",
)
@to_file
def graph(script: Path, style: GraphFormat | None, output: Path | None) -> None:
    """Draw the phases, topics and actions of a script, and the transitions between them.

    Use it to review the flow of a script. `svg` is a picture, `mermaid` a text that editors and code hosts draw,
    `json` the graph as data. Exits with 2 if the script has errors.
    """
    chosen = style or _style_of(output)
    _write(_WRITERS[chosen](build_graph(script_of(read_path(script)))), output)


def _style_of(output: Path | None) -> GraphFormat:
    """Return the format of the file's suffix; end the command for an unknown suffix."""
    ending = output.suffix.lower() if output is not None else ""
    if ending not in _ENDINGS:
        fail(f"{output}: the formats are .svg, .mmd (Mermaid) and .json; use --format for a file with another suffix")
    return _ENDINGS[ending]


@click.command(
    epilog="Examples:\n\n  cuebook schema -o cuebook.schema.json\n\n  cuebook schema --of cases -o cases.schema.json"
)
@click.option(
    "--of",
    "kind",
    type=click.Choice(["script", "include", "strings", "cases"]),
    default="script",
    help="A script; an include file with skills, roles, forms, tools, detectors or globals; a string table; "
    "test cases [script].",
)
@to_file
def schema(kind: Literal["script", "include", "strings", "cases"], output: Path | None) -> None:
    """Print the JSON Schema of scripts with `cuebook: 1`, or of another kind of file, for editors.

    With the YAML language server, an editor completes and checks a file that begins with the line
    `# yaml-language-server: $schema=cuebook.schema.json`. `cuebook lsp` needs no schema.
    """
    types: dict[str, type[Struct]] = {"script": Script, "include": IncludeFile, "strings": StringTable}
    if kind == "cases":
        from api.testing.cases.case_model import CaseFile  # loads the runtime, which the other schemas do not need

        types["cases"] = CaseFile
    _write(json_text(json_schema(types[kind])), output)


def _write(text: str, output: Path | None) -> None:
    write_text(text.rstrip("\n") + "\n", output)
    if output is not None:
        errors.print(f"wrote {escape(str(output))}")
