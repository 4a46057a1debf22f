"""Problems of scripts as SARIF 2.1.0, the format in which code hosts and editors read the findings of analysers.

The standard: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from scripts.model.diagnostics import CODES, Problem
from scripts.parse.read_script import Reading

SCHEMA_URL = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
Object: TypeAlias = dict[str, Any]
_RULE_INDEXES = {code: index for index, code in enumerate(CODES)}


def sarif_log(readings: Iterable[Reading], folder: Path) -> Object:
    """Return the problems of readings as a SARIF log; name files in or below `folder` relative to it."""
    from importlib.metadata import version  # not needed for the other formats

    rules = [
        {
            "id": code,
            "shortDescription": {"text": kind.meaning},
            "help": {"text": kind.fix},
            "defaultConfiguration": {"level": kind.severity},
        }
        for code, kind in CODES.items()
    ]
    results = [_result(problem, reading, folder) for reading in readings for problem in reading.problems]
    driver = {"name": "Cuebook", "version": version("cuebook"), "rules": rules}
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return {"runs": [run], "version": "2.1.0", "$schema": SCHEMA_URL}


def _result(problem: Problem, reading: Reading, folder: Path) -> Object:
    region = {"startLine": problem.line, "startColumn": problem.column}
    file = {"uri": _uri(_file_of(problem, reading), folder)}
    place: Object = {"physicalLocation": {"artifactLocation": file, "region": region}}
    if problem.path:
        place["logicalLocations"] = [{"fullyQualifiedName": problem.path}]
    return {
        "ruleId": problem.code,
        "ruleIndex": _RULE_INDEXES[problem.code],
        "level": problem.severity,
        "message": {"text": f"{problem.message}. {problem.fix}".rstrip()},
        "locations": [place],
    }


def _file_of(problem: Problem, reading: Reading) -> Path:
    """Return the file of a problem; a problem names an include file relative to the folder of the script."""
    script = Path(reading.source.file)
    return script if problem.file == reading.source.file else script.parent / problem.file


def _uri(file: Path, folder: Path) -> str:
    absolute, folder = file.absolute(), folder.absolute()
    return quote(absolute.relative_to(folder).as_posix()) if absolute.is_relative_to(folder) else absolute.as_uri()
