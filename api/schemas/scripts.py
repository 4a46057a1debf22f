"""Requests and responses about scripts, and the results of their test cases."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field

from api.schemas.base import Body, Content, Id, Number, PageView, ScriptText, View
from scripts.yaml.parser import FILE_CHARS_MAX

OutlineKind: TypeAlias = Literal["phase", "topic", "action"]


class NewScript(Body, frozen=True, kw_only=True):
    """A script to store, and to publish unless it is a draft. `files` are the include files of its `use`, by name."""

    yaml_content: ScriptText
    publish: bool = True
    script_name: Id | None = None
    files: dict[str, ScriptText] | None = {}
    tags: list[Id] | None = []
    author: Id | None = None
    description: Content | None = None


class WhichVersion(Body, frozen=True, kw_only=True):
    """A version of a script, by number."""

    version: Number | None = None


class ScriptPatch(Body, frozen=True, kw_only=True):
    """Changes of a script's description; absent fields do not change."""

    script_name: Id | None = None
    tags: Annotated[list[Id], Meta(max_length=100)] | None = None
    author: Id | None = None
    description: Content | None = None


class ScriptToValidate(Body, frozen=True, kw_only=True):
    """A script to validate without storing it."""

    yaml_content: ScriptText
    files: dict[str, ScriptText] | None = {}


class ScriptToTest(ScriptToValidate, frozen=True, kw_only=True):
    """A script to test without storing it. Those of its `files` whose names end in `.case.yaml` contain its cases."""


class PatchView(View, frozen=True, kw_only=True):
    """A part of a line, and what to write in its place."""

    line: int
    """From 1."""
    column: int
    """From 1, in characters."""
    written: str
    """The part, as it is in the file."""
    text: str
    """What to write in its place."""


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
    patch: PatchView | None = None
    """The change of the file that corrects it, if there is no doubt about it."""


class Validation(View, frozen=True, kw_only=True):
    """Whether a script can be run, and all its problems."""

    valid: bool
    diagnostics: list[ProblemView]


class Area(View, frozen=True, kw_only=True):
    """A rectangle of a picture, in pixels."""

    x: int
    """From the left."""
    y: int
    """From the top."""
    width: int
    """Its width."""
    height: int
    """Its height."""


class OutlineItem(View, frozen=True, kw_only=True):
    """A phase, a topic or an action, in the order of the script; groups such as `skills` stand beside the phases."""

    kind: OutlineKind
    id: str
    type: str
    """The type of an action, such as `ask`; empty for others."""
    text: str
    """The title, or what the action says, asks or does."""
    depth: int
    """How deep it is nested; phases: 0, topics: 1."""
    file: str
    """The include file; empty for the text of the script."""
    line: int
    """Counts from 1; 0 for a part that has no line, such as the only topic of a script with `actions`."""
    area: Area
    """Where it is in the picture."""


class Outline(View, frozen=True, kw_only=True):
    """The structure of a script: as a list, and as a picture in SVG."""

    data: list[OutlineItem]
    """The parts in the order of the script."""
    svg: str


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


class ScriptList(PageView, frozen=True, kw_only=True):
    """A page of scripts, the last changed first."""

    data: list[ScriptEntry]


class ScriptView(ScriptEntry, frozen=True, kw_only=True):
    """A script with its text, its structure and its problems."""

    form: str
    yaml_content: str
    files: Mapping[str, str]
    parsed: Mapping[str, Any]
    diagnostics: list[ProblemView]


class VersionList(PageView, frozen=True, kw_only=True):
    """A page of the versions of a script, the latest first; new sessions run the first that is published."""

    data: list[ScriptEntry]


class DraftText(Body, frozen=True, kw_only=True):
    """The text of a draft, valid or not. `files` are the include files of its `use`, by name."""

    yaml_content: Annotated[str, Meta(max_length=FILE_CHARS_MAX)]
    files: Annotated[dict[str, ScriptText], Meta(max_length=100)] | None = {}
    base_version: Number | None = None
    """The version that the draft began from; null for a new script."""


class DraftEntry(View, frozen=True, kw_only=True):
    """The unpublished changes of a script, without its text."""

    script_id: str
    revision: int
    base_version: int | None
    created_at: datetime
    updated_at: datetime


class DraftView(DraftEntry, frozen=True, kw_only=True):
    """The unpublished changes of a script."""

    yaml_content: str
    files: Mapping[str, str]


class DraftList(PageView, frozen=True, kw_only=True):
    """A page of drafts, the last saved first."""

    data: list[DraftEntry]


class BreakingChangeView(View, frozen=True, kw_only=True):
    """A change that a session of the earlier version could miss; the line is in the later version."""

    kind: Literal["removed", "moved", "renumbered", "type", "choice", "variable"]
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


class CaseFailureView(View, frozen=True, kw_only=True):
    """A difference between what a case expects and what happened."""

    turn: int | None
    """The turn of the case, from 0; null at the end."""
    input: str
    """What the user did, as the case has it: `say: yes`."""
    what: str
    """What differs."""
    expected: Any
    """What the case expects."""
    got: Any
    """What happened."""
    line: int


class CaseResultView(View, frozen=True, kw_only=True):
    """The result of a case."""

    file: str
    line: int
    name: str
    passed: bool
    """Whether nothing differs."""
    turns: int
    """The turns that ran."""
    failures: list[CaseFailureView]
    """What differs; a case ends at the first turn with a difference."""


class CoverageCount(View, frozen=True, kw_only=True):
    """How many parts of a kind the cases reached."""

    kind: str
    """`phases`, `topics`, `actions`, `branches` or `conditions`."""
    covered: int
    """The parts that a case reached."""
    total: int
    """All parts of the kind."""


class MissedPart(View, frozen=True, kw_only=True):
    """A part of a script that no case reached."""

    kind: str
    name: str
    """Its path of ids."""
    arm: str
    """The branch or the result of the condition; empty for other parts."""
    file: str
    """The include file; empty for the script itself."""
    line: int


class CaseReport(View, frozen=True, kw_only=True):
    """The results of the cases of a script, and what they reached of it."""

    passed: int
    """The cases that passed."""
    failed: int
    """The cases that did not."""
    results: list[CaseResultView]
    """The cases in the order of their files."""
    diagnostics: list[ProblemView]
    """The problems of the case files; a file with an error has no results."""
    coverage: list[CoverageCount]
    """What the cases reached, by kind."""
    missed: list[MissedPart]
    """What no case reached."""
