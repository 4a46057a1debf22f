"""What answers about memories as files look like, and about their soundness."""

from collections.abc import Mapping, Sequence

from api.schemas.base import View


class BroughtView(View, frozen=True, kw_only=True):
    """What came of a file, or with `dryRun` would: `renamed` are the ids that were taken, with those given instead.

    `leftOut` counts summaries of a whole memory, where there is one already.
    """

    units: int
    groups: int
    vectors: int
    embedder: str | None
    renamed: Mapping[str, str]
    left_out: int
    dry_run: bool
    success: bool = True


class FindingView(View, frozen=True, kw_only=True):
    """Something that is wrong with a memory: what it is about, what that means, and what repairing does.

    Where `mended` is empty it is no damage: the server sees to it by itself. `sequence` is the number of a unit.
    """

    code: str
    tenant: str
    user_id: str
    subject: str
    sequence: int | None
    means: str
    mended: str


class Checked(View, frozen=True, kw_only=True):
    """What is wrong with memories."""

    findings: Sequence[FindingView]
    success: bool = True


class Repaired(View, frozen=True, kw_only=True):
    """What was mended, and what is left."""

    mended: Sequence[FindingView]
    left: Sequence[FindingView]
    success: bool = True
