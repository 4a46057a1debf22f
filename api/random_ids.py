"""Random UUIDs (version 4), made many at a time: one call of the system's generator costs more than a hundred ids.

A turn takes some seven ids. On virtual machines a call of `os.urandom` was measured at 20 to 50 microseconds.
"""

import os
import uuid

_POOL_IDS = 256
_pool: list[str] = []  # append and pop are atomic, so that threads share it

os.register_at_fork(after_in_child=_pool.clear)  # parent and child must not give the same ids


def new_id() -> str:
    """Return a random UUID."""
    try:
        return _pool.pop()
    except IndexError:
        noise = os.urandom(16 * _POOL_IDS)
        _pool.extend(str(uuid.UUID(bytes=noise[at : at + 16], version=4)) for at in range(16, len(noise), 16))
        return str(uuid.UUID(bytes=noise[:16], version=4))
