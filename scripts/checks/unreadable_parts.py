"""Decide what is reported of a script of which errors made parts unreadable."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import regex

from scripts.model.base import Location
from scripts.model.diagnostics import Fault, Problem, Problems

_NEEDS_ALL_PARTS = {"NO_ACTIONS", "EXPERIMENT_UNUSED", "FORM_UNUSED", "ARMS_TOO_FEW", "ARM_UNKNOWN", "ARM_MISSING"}
"""Problems that are not reported if a part of the script is invalid, because a list may be empty only for that."""
_DEFINED_IN = {
    "GOTO_UNKNOWN": "phases",
    **dict.fromkeys(("SKILL_UNKNOWN", "PARAMETER_UNKNOWN", "RETURN_UNKNOWN"), "skills"),
    **dict.fromkeys(("FORM_UNKNOWN", "FIELDS_INVALID", "COLUMNS_INVALID"), "forms"),
    "ROLE_UNKNOWN": "roles",
    **dict.fromkeys(("DETECTOR_UNKNOWN", "DETECTOR_WITHOUT_RULE", "DETECTOR_EXAMPLE_FAILS"), "detectors"),
    "EXPERIMENT_UNKNOWN": "experiments",
    "TOOL_UNKNOWN": "tools",
    "TIMEZONE_MISSING": "",
}
"""The key of the script below which something is defined, by the code of the problem that it does not exist."""
_KEEPS_VALUES = frozenset({"EXPRESSION_INVALID", "TEMPLATE_INVALID", "DEPRECATED_KEY", "KEY_IGNORED"})
"""Errors of reading after which the script still sets all its variables."""
_FILE_LOST = frozenset({"USE_NOT_FOUND", "FILE_UNREADABLE"})
_IN_ACTIONS = regex.compile(r"\bactions\[")
_WORD = re.compile(r"\w+")


class LostParts:
    """The parts of a script that errors of reading made unreadable."""

    def __init__(self, texts: Mapping[str, str], problems: Problems) -> None:
        """`texts` are the script (by "") and its include files, by name; `problems` are those of reading."""
        self._texts = texts
        self._problems = problems
        self._errors = [each for each in problems.errors if each.code not in _KEEPS_VALUES]
        self._paths = {each.path for each in self._errors if not _IN_ACTIONS.search(each.path)}  # may contain ids
        self._is_whole = not problems.fatal

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._errors)

    def may_cause(self, fault: Fault) -> bool:
        """Return whether a fault may exist only because a part is lost: an empty list, or a name without a node."""
        is_undefined = fault.code in _DEFINED_IN and not fault.fix.startswith("Did you mean")
        if is_undefined and self._may_define(_DEFINED_IN[fault.code]):
            return True
        return not self._is_whole and fault.code in _NEEDS_ALL_PARTS

    def _may_define(self, holder: str) -> bool:
        """Return whether a lost part may contain a definition below a key of the script."""
        if any(each.code == "DUPLICATE_KEY" for each in self._problems.errors):
            return True
        return any(
            holder in path or path.startswith("use") or (not path and holder != "phases") for path in self._paths
        )

    def may_contain(self, name: str, reads: Iterable[Location], *, is_misspelt: bool) -> bool:
        """Return whether the name occurs elsewhere than in the readable lines that read the variable.

        Of one that is probably misspelt, also a line with an error only reads it.
        """
        lines = self._lines.get(name)
        readable = set(self._places(reads)) - set(() if is_misspelt else self._places(self._errors))
        return any(each.code in _FILE_LOST for each in self._errors) or lines is None or not lines <= readable

    @cached_property
    def _lines(self) -> Mapping[str, set[tuple[str, int]]]:
        """The lines of each word."""
        found: dict[str, set[tuple[str, int]]] = {}
        for file, text in self._texts.items():
            for number, line in enumerate(text.splitlines(), 1):
                for word in _WORD.findall(line):
                    found.setdefault(word, set()).add((file, number))
        return found

    def _places(self, found: "Iterable[Problem] | Iterable[Location]") -> Iterator[tuple[str, int]]:
        return ((each.file if each.file in self._texts else "", each.line) for each in found)
