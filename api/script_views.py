"""What answers show of a script."""

from collections.abc import Mapping
from typing import Any

import msgspec

from api.problems import problem_views
from api.schemas.scripts import ScriptListed, ScriptView
from api.views import script_outline
from scripts.parse import Reading
from store.rows import ScriptRow


def listed(row: ScriptRow) -> ScriptListed:
    """A version of a script, without its text."""
    return ScriptListed(**_fields(row))


def view(row: ScriptRow, reading: Reading) -> ScriptView:
    """A version of a script, with its text, its structure and its problems."""
    parsed: Mapping[str, Any] = script_outline(reading.script) if reading.script is not None else {}
    return ScriptView(
        **_fields(row),
        form=reading.script.form if reading.script is not None else "",
        yaml_content=reading.source.text,
        files=reading.source.side_files,
        parsed=parsed,
        diagnostics=list(problem_views(reading.problems)),
    )


def _fields(row: ScriptRow) -> dict[str, Any]:
    fields = msgspec.structs.asdict(row)
    fields.pop("tenant")
    return fields | {
        "script_id": fields.pop("script_uuid"),
        "script_key": row.script_id,
        "script_name": fields.pop("name"),
    }
