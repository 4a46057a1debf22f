"""Fixtures that run sessions without a store."""

from typing import Any

import pytest

from tests.support.runtime_session import NewSession, ReadProgram, Session, StartSession, new_session, read_program


@pytest.fixture(scope="session")
def program_of() -> ReadProgram:
    """Read a script."""
    return read_program


@pytest.fixture(scope="session")
def drive() -> StartSession:
    """Start a session: ``await drive(yaml)``, or ``await drive(yaml, replies={...})`` for the scripted model."""

    async def start(*args: Any, **options: Any) -> Session:
        return await new_session(*args, **options).start()

    return start


@pytest.fixture(scope="session")
def prepare() -> NewSession:
    """Create a session whose first turn has not run."""
    return new_session
