"""Problems of scripts as diagnostics of an editor, with the patches that correct them."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from lsprotocol import types
from msgspec import Struct

from api.language_server.text_positions import TextPositions
from scripts.model.diagnostics import Problem
from scripts.parse.patches import Patch, lines_of, patch_of
from scripts.parse.read_script import Reading

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Hint,
}
_WORD = re.compile(r"\s*((?:[\w./-]+|\S)?)")


class FoundProblem(Struct, frozen=True):
    """A problem and the change of its file that corrects it, if its fix leaves no choice."""

    problem: Problem
    patch: Patch | None


def problems_by_file(readings: Iterable[Reading]) -> Mapping[Path, list[FoundProblem]]:
    """Return the problems of scripts by their files; a file without problems has none."""
    found: dict[Path, list[FoundProblem]] = {}
    for reading in readings:
        script = Path(reading.source.file)
        texts = {reading.source.file: reading.source.text, **reading.source.side_files}
        lines = {file: lines_of(text) for file, text in texts.items()}
        paths = {file: script if file == reading.source.file else script.parent / file for file in texts}
        found |= {path: found.get(path, []) for path in paths.values()}
        for each in reading.problems:
            file = each.file if each.file in paths else reading.source.file
            found[paths[file]].append(FoundProblem(each, patch_of(each, lines[file])))
    return found


def problem_range(problem: Problem, positions: TextPositions) -> types.Range:
    """Return the range of the word at a problem's place."""
    start = positions.at(problem.line - 1, problem.column - 1)
    word = _WORD.match(positions.text, start)
    return positions.range(*(word.span(1) if word is not None else (start, start)))


def diagnostic(found: FoundProblem, positions: TextPositions) -> types.Diagnostic:
    """Return a problem with its fix as a diagnostic."""
    problem = found.problem
    return types.Diagnostic(
        range=problem_range(problem, positions),
        message=f"{problem.message}\n{problem.fix}".rstrip(),
        severity=_SEVERITIES[problem.severity],
        code=problem.code,
        source="cuebook",
    )


def fix_action(found: FoundProblem, uri: str, positions: TextPositions) -> types.CodeAction | None:
    """Return the change that corrects a problem; None without one, or if its place has another text by now."""
    patch = found.patch
    if patch is None:
        return None
    start = positions.at(patch.line - 1, patch.column - 1)
    end = start + len(patch.written)
    if positions.text[start:end] != patch.written:
        return None
    edit = types.TextEdit(positions.range(start, end), patch.text)
    return types.CodeAction(
        title=f"Replace {patch.written} with {patch.text}",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic(found, positions)],
        edit=types.WorkspaceEdit(changes={uri: [edit]}),
        is_preferred=True,
    )
