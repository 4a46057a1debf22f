"""Plays scripts in memory."""

from collections.abc import Callable

import pytest

from api.app import utc_now
from api.playing import Player
from api.random_ids import new_id
from runtime.models.offline import OfflineModel
from runtime.program import Program
from runtime.run import Limits
from runtime.state import State


@pytest.fixture
def player_of() -> Callable[[Program, State], Player]:
    """A player of a script, with the offline model."""
    return lambda program, state: Player(program, state, OfflineModel(), utc_now, new_id, Limits())
