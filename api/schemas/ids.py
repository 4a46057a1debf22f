"""Ids: the pattern of client-chosen ids, ids in paths, the default tenant, new ids (UUID version 7, RFC 9562).

No client-chosen id contains a control character: NUL ends a text in some systems behind this one, and a line break in
an id injects lines into logs and files. Random ids are generated in batches: a turn uses about seven of them, and on
virtual machines one call of `os.urandom` was measured at 20 to 50 microseconds.
"""

import os
import re
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

ID_PATTERN: Final = r"^(?![\s\S]*[\u0000-\u001f\u007f-\u009f\u2028\u2029])"
"""Pattern of a text without control characters and line breaks, for msgspec and the OpenAPI description."""
TENANT = "default"
"""The tenant where none is named: for scripts of the folder, commands, and a server without keys."""

TENANT_HEADER = "x-cuebook-tenant"
"""The header in which the operator's key names another tenant."""

_REFUSED = re.compile(r"[\u0000-\u001f\u007f-\u009f\u2028\u2029]")


def has_control(text: str) -> bool:
    """Return whether a text contains a control character or a line break."""
    return _REFUSED.search(text) is not None


def in_path(id_: str) -> str:
    """Return an id as a part of a path; an id of dots only would otherwise name a parent path."""
    return quote(id_, "") if id_.strip(".") else id_.replace(".", "%2E")


_COUNTER_BITS = 12
_NS_A_MS = 1_000_000
_VARIANT, _RANDOM = 1 << 63, (1 << 62) - 1  # the second half of an id begins with the bits 10; the others are random
_POOL_SIZE = 256


class IdSource:
    """Ids of one process, in ascending order: a time in milliseconds, a counter within it, and random bits.

    More ids than the counter holds, or a clock that is set back, continue from the last id: its time runs ahead.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self.reset()

    def reset(self) -> None:
        """Begin with other random bits, in a child process that must not generate the ids of its parent."""
        self._lock = threading.Lock()
        self._last = 0  # time and counter of the last id
        self._random: list[str] = []  # second halves

    def __call__(self) -> str:
        """Return a new UUID of version 7."""
        now = self._clock_ns() // _NS_A_MS << _COUNTER_BITS
        with self._lock:
            self._last = max(now, self._last + 1)
            head = f"{self._last:015x}"
            if not self._random:
                self._refill()
            return f"{head[:8]}-{head[8:12]}-7{head[12:]}-{self._random.pop()}"

    def _refill(self) -> None:
        noise = os.urandom(8 * _POOL_SIZE)
        for at in range(0, len(noise), 8):
            half = f"{int.from_bytes(noise[at : at + 8]) & _RANDOM | _VARIANT:016x}"
            self._random.append(f"{half[:4]}-{half[4:]}")


new_id: Final = IdSource()
"""Returns a new id; the ids of a process sort by their creation."""

os.register_at_fork(after_in_child=new_id.reset)
