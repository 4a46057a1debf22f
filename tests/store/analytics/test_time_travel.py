"""Where a session stood after any of its turns, and what it knew, is what its recorded state says."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import duckdb
import msgspec
import pytest

from runtime.state.state import State, decode
from store.duckdb.database import Database
from tests.support.expected_rows import rows_of
from tests.support.random_sessions import START, Model


@pytest.fixture(scope="module")
def turns(recorded: Any) -> list[Any]:
    """Return the turns of the database."""
    database = Database.open(recorded.store, read_only=True)
    found = rows_of(database.cursor(), "FROM turns ORDER BY session_id, turn")
    database.close()
    return found


@pytest.fixture(scope="module")
def file(recorded: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(recorded.file), read_only=True) as connection:
        yield connection


def known_in(state: State) -> set[tuple[Any, ...]]:
    """Return the variables of a state that have a value, but for those of the user."""
    phase, topic = state.phase or None, state.topic or None
    layers = [
        ("session", None, None, state.session_cells),
        ("phase", phase, None, state.phase_cells),
        ("topic", phase, topic, state.topic_cells),
        *(("topic", phase, frame.home[1], frame.cells) for frame in state.frames if frame.home is not None),
    ]
    return {
        (scope, *place, name, cell.type, repr(cell.value))
        for scope, *place, cells in layers
        for name, cell in cells.items()
        if cell.value is not None
    }


@pytest.mark.gate
def test_what_a_session_knew_is_what_its_state_held(turns: list[Any], file: duckdb.DuckDBPyConnection) -> None:
    reported = {each.session_id for each in turns if '"rewind"' in each.events or '"skill"' in each.state}
    first = [each for each in turns if each.session_id in reported]
    tried = [*first[:60], *turns[:: len(turns) // 30]]
    assert sum(bool(known_in(decode(turn.state))) for turn in tried) > len(tried) / 2
    for turn in tried:
        rows = rows_of(file, f"FROM variables_at('{turn.session_id}', {turn.turn}) WHERE scope != 'global'")
        found = {
            (
                row.scope,
                row.phase_id,
                row.topic_id,
                row.name,
                row.type,
                repr(msgspec.json.decode(row.value)),
            )
            for row in rows
        }
        assert found == known_in(decode(turn.state)), (turn.session_id, turn.turn)


def test_where_a_session_stood_is_what_its_turn_left(turns: list[Any], file: duckdb.DuckDBPyConnection) -> None:
    for turn in turns[:: len(turns) // 25]:
        before = [each for each in turns if each.session_id == turn.session_id and each.turn <= turn.turn]
        said = [message for each in before for message in msgspec.json.decode(each.messages)]
        (row,) = rows_of(file, f"FROM session_at('{turn.session_id}', {turn.turn})")
        for name in ("user_id", "turn", "finished_at", "status", "phase_id", "topic_id", "action_id", "wait_kind"):
            assert getattr(row, name) == getattr(turn, name)
        assert row.messages == len(said)
        assert row.user_messages == sum(each["role"] == "user" for each in said)
        assert row.writes == sum(len(msgspec.json.decode(each.variables)) for each in before)
        assert row.events == sum(len(msgspec.json.decode(each.events)) for each in before)


def test_without_a_turn_it_is_the_latest(turns: list[Any], file: duckdb.DuckDBPyConnection) -> None:
    last = turns[-1]
    assert rows_of(file, f"FROM session_at('{last.session_id}')")[0].turn == last.turn
    assert rows_of(file, f"FROM variables_at('{last.session_id}')") == rows_of(
        file, f"FROM variables_at('{last.session_id}', {last.turn})"
    )


def test_an_unknown_session_or_turn_is_an_error(turns: list[Any], file: duckdb.DuckDBPyConnection) -> None:
    unknown, last = uuid4(), max(each.turn for each in turns if each.session_id == turns[0].session_id)
    with pytest.raises(duckdb.InvalidInputException, match=f"there is no session `{unknown}`"):
        rows_of(file, f"FROM session_at('{unknown}', 1)")
    with pytest.raises(duckdb.InvalidInputException, match=f"no turn 1000; its turns are 0 to {last}"):
        rows_of(file, f"FROM variables_at('{turns[0].session_id}', 1000)")


def test_user_variables_are_those_that_all_had_set_by_then() -> None:
    model, one, other = Model(), uuid4(), uuid4()
    for minute, session, turn, value in ((1, one, 0, "a"), (2, None, None, "b"), (3, other, 0, "c"), (4, one, 1, None)):
        moment = START + timedelta(minutes=minute)
        model.add(
            "variable_history", session_id=session, user_id="ana", turn=turn, seq=turn, written_at=moment,
            scope="global", name="name", type="null" if value is None else "text", new_text=value, is_pii=False,
        )  # fmt: skip
    for session, turn, minute in ((one, 0, 1), (other, 0, 3), (other, 1, 3.5), (one, 1, 4), (other, 2, 5)):
        moment = START + timedelta(minutes=minute)
        model.add("turns", session_id=session, user_id="ana", turn=turn, started_at=moment, finished_at=moment)
    connection = model.written()

    def value_at(session: UUID, turn: int) -> str | None:
        return next((row.value_text for row in rows_of(connection, f"FROM variables_at('{session}', {turn})")), None)

    assert value_at(one, 0) == "a"
    assert value_at(other, 0) == value_at(other, 1) == "c"
    assert value_at(one, 1) is value_at(other, 2) is None
    connection.close()
