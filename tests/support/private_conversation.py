"""Types of the fixture `private_conversation`."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from tests.support.api_client import ApiClient, Json


class PrivateConversation(Struct, frozen=True):
    """A session that contains all private values, and a client of its API."""

    api: ApiClient
    session: Json

    @property
    def path(self) -> str:
        """Return the path of the session."""
        return f"/api/sessions/{self.session['sessionId']}"


OpenConversation: TypeAlias = Callable[[Path], AbstractAsyncContextManager[PrivateConversation]]
"""Open the application on a folder and run the conversation."""
