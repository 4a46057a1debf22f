"""What a document may lack, and what of it was passed over."""

from msgspec import Struct

SKIPPED_MAX = 1_000
"""Lines that are told one by one; of more the number alone is."""


MASKED = "it was exported masked, so that its personal values and states are not in it; export it unmasked to import it"


class DocumentInvalid(ValueError):
    """A document that no session can be made of; the message says why, and where."""


class Skipped(Struct, frozen=True):
    """A part of a document that could not be used: its line (or its number in a list, from 1), and why."""

    line: int
    reason: str


class Account:
    """What was passed over on the way through one document."""

    def __init__(self) -> None:
        self.skipped: list[Skipped] = []
        self.skipped_count = 0
        self.remarks: list[str] = []

    def skip(self, line: int, reason: str) -> None:
        """A part is left out."""
        self.skipped_count += 1
        if len(self.skipped) < SKIPPED_MAX:
            self.skipped.append(Skipped(line, reason))

    def remark(self, words: str) -> None:
        """Something was taken otherwise than it is written."""
        if len(self.remarks) < SKIPPED_MAX:
            self.remarks.append(words)
