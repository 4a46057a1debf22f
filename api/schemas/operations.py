"""What those who run a server are told of it."""

from collections.abc import Mapping
from typing import Literal

from api.schemas.base import View


class Health(View, frozen=True, kw_only=True):
    """The process is alive."""

    status: Literal["ok"]
    version: str


class Readiness(View, frozen=True, kw_only=True):
    """Whether turns can be taken, and what keeps them from it."""

    ready: bool
    checks: Mapping[str, str]
