"""What requests and answers about scripts look like."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from api.schemas.base import Body, Content, Id, ScriptText, View


class NewScript(Body, frozen=True, kw_only=True):
    """A script to keep. `files` are the side files named in its `use`, by name."""

    yaml_content: ScriptText
    script_name: Id | None = None
    files: dict[str, ScriptText] = {}
    tags: list[Id] = []
    author: Id | None = None
    description: Content | None = None


class ScriptToValidate(Body, frozen=True, kw_only=True):
    """A script to look at without keeping it."""

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
    """Whether a script can be run, and everything to know about it."""

    valid: bool
    diagnostics: list[ProblemView]
    success: bool = True


class ScriptListed(View, frozen=True, kw_only=True):
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

    data: list[ScriptListed]
    next_cursor: str | None
    success: bool = True


class ScriptView(ScriptListed, frozen=True, kw_only=True):
    """A script with its text, its structure and its problems."""

    form: str
    yaml_content: str
    files: Mapping[str, str]
    parsed: Mapping[str, Any]
    diagnostics: list[ProblemView]
    success: bool = True
