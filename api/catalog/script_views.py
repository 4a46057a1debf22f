"""Views of a script and of its problems, in responses and command output."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from api.schemas.scripts import PatchView, ProblemView, ScriptEntry, ScriptView
from scripts.model.actions import action_type
from scripts.model.diagnostics import Problem
from scripts.model.script import Script
from scripts.parse.patches import lines_of, patch_of
from scripts.parse.read_script import Reading, Source
from store.interface.rows import ScriptRow


def problem_views(problems: Iterable[Problem], source: Source | None = None) -> list[ProblemView]:
    """Convert problems to their views, with patches of their `source`."""
    if source is None:
        return [ProblemView.of(each, patch=None) for each in problems]

    @cache
    def lines(file: str) -> list[str]:
        return lines_of(source.text if file == source.file else source.side_files.get(file, ""))

    found = ((each, patch_of(each, lines(each.file))) for each in problems)
    return [ProblemView.of(each, patch=None if patch is None else PatchView.of(patch)) for each, patch in found]


def list_entry(row: ScriptRow) -> ScriptEntry:
    """Return a version of a script without its text."""
    return ScriptEntry.of(row, script_id=row.script_uuid, script_key=row.script_id, script_name=row.name)


def view(row: ScriptRow, reading: Reading) -> ScriptView:
    """Return a version of a script with its text, structure and problems."""
    script = reading.script
    return ScriptView.of(
        list_entry(row),
        form=script.form if script is not None else "",
        yaml_content=reading.source.text,
        files=reading.source.side_files,
        parsed=script_outline(script) if script is not None else {},
        diagnostics=problem_views(reading.problems, reading.source),
    )


def script_outline(script: Script) -> dict[str, Any]:
    """Return the structure of a script, with the keys of the session format."""
    return {
        "session": {
            "session_id": script.id,
            "session_name": script.title,
            "phases": [
                {
                    "phase_id": phase.id,
                    "phase_name": phase.title,
                    "phase_goal": phase.goal,
                    "topics": [
                        {
                            "topic_id": topic.id,
                            "topic_name": topic.title,
                            "topic_goal": topic.goal,
                            "actions": [
                                {"action_id": action.id, "action_type": action_type(action)} for action in topic.actions
                            ],
                        }
                        for topic in phase.topics
                    ],
                }
                for phase in script.phases
            ],
        }
    }
