"""Requests and responses about scripts."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from api.schemas.base import Body, Content, Id, ScriptText, View


class NewScript(Body, frozen=True, kw_only=True):
    """A script to store, and to publish unless it is a draft. `files` are the include files of its `use`, by name."""

    yaml_content: ScriptText
    publish: bool = True
    script_name: Id | None = None
    files: dict[str, ScriptText] = {}
    tags: list[Id] = []
    author: Id | None = None
    description: Content | None = None


class WhichVersion(Body, frozen=True, kw_only=True):
    """A version of a script, by number."""

    version: Annotated[int, Meta(ge=1, le=2**31)] | None = None


class ScriptPatch(Body, frozen=True, kw_only=True):
    """Changes of a script's description; absent fields do not change."""

    script_name: Id | None = None
    tags: Annotated[list[Id], Meta(max_length=100)] | None = None
    author: Id | None = None
    description: Content | None = None


class ScriptToValidate(Body, frozen=True, kw_only=True):
    """A script to validate without storing it."""

    yaml_content: ScriptText
    files: dict[str, ScriptText] = {}


class ProblemView(View, frozen=True, kw_only=True):
    """One problem of a script."""

    code: str
    severity: str
    message: str
    fix: str
    file: str
    line: int
    column: int
    path: str


class Validation(View, frozen=True, kw_only=True):
    """Whether a script can be run, and all its problems."""

    valid: bool
    diagnostics: list[ProblemView]


class ScriptEntry(View, frozen=True, kw_only=True):
    """A script in a list: its latest version."""

    script_id: str
    script_key: str
    script_name: str
    version: int
    version_label: str
    status: str
    digest: str
    tags: list[str]
    author: str | None
    description: str | None
    created_at: datetime
    updated_at: datetime


class ScriptList(View, frozen=True, kw_only=True):
    """A page of scripts, the last changed first."""

    data: list[ScriptEntry]
    next_cursor: str | None


class ScriptView(ScriptEntry, frozen=True, kw_only=True):
    """A script with its text, its structure and its problems."""

    form: str
    yaml_content: str
    files: Mapping[str, str]
    parsed: Mapping[str, Any]
    diagnostics: list[ProblemView]


class VersionList(View, frozen=True, kw_only=True):
    """The versions of a script, the latest first; new sessions run the first that is published."""

    data: list[ScriptEntry]
    next_cursor: str | None = None


class BreakingChangeView(View, frozen=True, kw_only=True):
    """A change that a session of the earlier version could miss; the line is in the later version."""

    kind: Literal["removed", "moved", "type", "choice", "variable"]
    path: str
    message: str
    fix: str
    line: int


class DifferenceView(View, frozen=True, kw_only=True):
    """A difference between two versions; `was` is its path in the earlier version, if it differs."""

    what: Literal["script", "phase", "topic", "action", "skill", "interrupt", "detector", "variable"]
    how: Literal["added", "removed", "changed"]
    path: str
    was: str


class VersionRef(View, frozen=True, kw_only=True):
    """A version of a script."""

    version: int
    version_label: str
    digest: str


class ScriptDiff(View, frozen=True, kw_only=True):
    """The differences between two versions.

    `text` is a unified diff of the YAML, empty if only include files differ; null for texts too long to compare.
    `touching` and `differences` are null if a version can no longer be parsed.
    """

    script_id: str
    script_key: str
    from_: VersionRef = field(name="from")
    to: VersionRef
    text: str | None
    touching: list[BreakingChangeView] | None
    differences: list[DifferenceView] | None
