"""The scripts of the library as read, and types of the fixtures that read scripts."""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from scripts.expressions.expressions import Evaluation
from scripts.model.actions import Action
from scripts.model.script import Script
from scripts.parse.folder import read_folder
from scripts.parse.read_script import Reading
from tests.support.paths import LIBRARY

ReadScript: TypeAlias = Callable[..., Reading]
"""Read the text of a script; include files are keyword arguments, ``side_yaml`` for ``side.yaml``."""

ReadValid: TypeAlias = Callable[..., Script]
"""Read the text of a script that has no errors; arguments as of `ReadScript`."""

FirstAction: TypeAlias = Callable[..., Action]
"""Return the first action of a script with these actions."""

Evaluate: TypeAlias = Callable[..., Evaluation]
"""Evaluate an expression or a template; its names are keyword arguments."""


@cache
def library_readings() -> tuple[Reading, ...]:
    """Return the scripts of the library, read once for all tests of a process."""
    return tuple(read_folder(LIBRARY))
