"""Plays scripts in memory."""

from collections.abc import Callable

import pytest

from api.schemas.ids import new_id
from api.schemas.timestamps import utc_now
from api.testing.player import Player
from runtime.models.offline_model import OfflineModel
from runtime.state.limits import Limits
from runtime.state.program import Program
from runtime.state.state import State


@pytest.fixture
def player_of() -> Callable[[Program, State], Player]:
    """Return a player of a script, with the offline model."""
    return lambda program, state: Player(program, state, OfflineModel(), utc_now, new_id, Limits())
