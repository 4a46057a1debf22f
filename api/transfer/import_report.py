"""Errors and skipped parts of an imported document."""

from collections.abc import Iterable

from api.schemas.session_lists import SkippedView

SKIPPED_MAX = 1_000
"""Skipped lines that are listed; beyond, only their number is reported."""


MASKED = "the document is masked: personal values and states are missing; export it unmasked to import it"


class DocumentInvalid(ValueError):
    """The document cannot become a session; the message says why and where."""


class ImportReport:
    """The skipped parts of one document."""

    def __init__(self) -> None:
        self.skipped: list[SkippedView] = []
        self.skipped_count = 0
        self.remarks: list[str] = []

    def skip(self, line: int, reason: str) -> None:
        """Report a part that is left out."""
        self.skipped_count += 1
        if len(self.skipped) < SKIPPED_MAX:
            self.skipped.append(SkippedView(line=line, reason=reason))

    def remark(self, words: str) -> None:
        """Report a part that is imported with a change."""
        if len(self.remarks) < SKIPPED_MAX:
            self.remarks.append(words)

    def count(self, name: str, value: object, most: int) -> int:
        """Return a number from 0 to `most`, and 0 if there is none; another value is reported and counts as 0."""
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            self.remark(f"{name} is not a number from 0 to {most:,} and counts as 0")
            return 0
        return value

    def remark_all(self, part: str, changes: Iterable[str]) -> None:
        """Report the changes of a part."""
        for words in changes:
            self.remark(f"{part}: {words}")
