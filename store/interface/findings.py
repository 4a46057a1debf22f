"""The findings of a verification of the database or of an analytics file. Their remedies are in `findings.yaml`."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

FOUND_MAX = 1_000
"""Maximum number of findings of one rule over whole tables."""


class Finding(Struct, frozen=True, kw_only=True):
    """An inconsistency and its location. It contains no variable values and no message texts."""

    code: str
    table: str
    tenant: str
    session_id: str | None = None
    user_id: str | None = None
    turn: int | None = None
    what: str

    @property
    def remedy(self) -> str:
        """How to fix it."""
        return remedies()[self.code]

    @property
    def is_damage(self) -> bool:
        """Whether it is damage. If not, normal use can explain it, and it is reported as information only."""
        return self.code not in REMARKS


REMARKS = frozenset({"variable_behind"})
"""Codes that normal use of the database can explain."""


@cache
def remedies() -> Mapping[str, str]:
    """Return the remedies, by code."""
    return msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, str])
