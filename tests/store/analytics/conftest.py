"""Analytics files to ask, and the same rows as Python objects, to reckon reports by hand from."""

import asyncio
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import msgspec
import pytest

from api.analytics.outlines import outline_of
from api.client.transport import CuebookError
from api.embedded import open_runtime
from api.settings import EXAMPLES
from scripts.parse.read_script import Source, read_script
from store.analytics.delta import KnownContent, write_delta
from store.analytics.file import Place
from store.analytics.outlines import OUTLINES
from store.analytics.refresh import Masking, refresh
from store.duckdb.database import Database
from tests.support import expected_rows as from_record
from tests.support import random_sessions as traffic
from tests.support.paths import DATA

ERRANDS = DATA / "errands.yaml"
PLAYED = ("intake", "moving_abroad", "errands", "errands", "check_in")
REPLIES = (
    "yes",
    "Ana",
    "34",
    "no",
    "my back hurts",
    "7",
    "maybe",
    "2",
    "",
    "what does it cost, how much?",
    "start this over",
)


class Recorded(NamedTuple):
    """A record, and the analytics file made from it."""

    store: Path
    file: Path


async def converse(folder: Path) -> None:
    """Run sessions in which applications do all that they may."""
    dice = random.Random(5)
    scripts = folder / "scripts"
    shutil.copytree(EXAMPLES, scripts)
    shutil.copy(ERRANDS, scripts)
    await play(folder, scripts, dice, 13)
    intake = scripts / "intake.yaml"
    intake.write_text(intake.read_text("utf-8") + "\n# once more\n", "utf-8")
    await play(folder, scripts, dice, 13)


async def play(folder: Path, scripts: Path, dice: random.Random, sessions: int) -> None:
    """Play sessions of the scripts as they are now."""
    async with open_runtime(folder, scripts=scripts) as cuebook:
        for number in range(sessions):
            started = await cuebook.sessions.create(f"user {number % 7}", dice.choice(PLAYED))
            for turn in range(dice.randrange(18)):
                with suppress(CuebookError):  # a session that has ended, or a reply that does not do
                    match dice.choices(["send", "rewind", "clear", "fork", "set", "end"], [80, 6, 3, 4, 4, 1])[0]:
                        case "send":
                            await cuebook.sessions.send(started.session_id, dice.choice(REPLIES))
                        case "rewind":
                            await cuebook.sessions.rewind(started.session_id, turn=dice.randrange(turn + 1))
                        case "clear":
                            await cuebook.sessions.clear(started.session_id)
                        case "fork":
                            await cuebook.sessions.fork(started.session_id, turn=dice.randrange(turn + 1))
                        case "set":
                            await cuebook.sessions.set_variables(
                                started.session_id, {"concern": dice.choice([None, "x"])}
                            )
                        case "end":
                            await cuebook.sessions.end(started.session_id, "enough")


def refresh_file(store: Path, place: Place, folder: Path) -> None:
    """Make the analytics file of a record."""
    database = Database.open(store, read_only=True)
    cursor = database.cursor()
    delta = write_delta(cursor, "default", folder, KnownContent(), units=False)
    scripts = {}
    for digest in delta.digests:
        text = cursor.execute("SELECT text, files FROM script_texts WHERE digest = ?", [digest]).fetchall()[0]
        script = read_script(Source(text[0], "", msgspec.json.decode(text[1], type=dict[str, str])), "compat").script
        assert script is not None
        scripts[digest] = script
    (folder / OUTLINES).write_bytes(msgspec.json.encode(outline_of(scripts.items())))
    refresh(place, folder, Masking(is_masked=False))
    cursor.close()
    database.close()


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    store, folder = tmp_path_factory.mktemp("record"), tmp_path_factory.mktemp("delta")
    asyncio.run(converse(store))
    place = Place(tmp_path_factory.mktemp("analytics") / "full.duckdb")
    refresh_file(store, place, folder)
    return Recorded(store, place.path)


@pytest.fixture(scope="session", params=[1, 2, "a record"])
def model(request: pytest.FixtureRequest) -> Any:
    """Return rows: random ones of a seed, or those read from the turns of a database."""
    if request.param != "a record":
        return traffic.Traffic(request.param).model
    made: Recorded = request.getfixturevalue("recorded")
    model = traffic.Model()
    database = Database.open(made.store, read_only=True)
    with duckdb.connect(str(made.file), read_only=True) as file:
        from_record.fill(model, database.cursor(), file)
    database.close()
    model.file = made.file
    return model


@pytest.fixture(scope="session")
def asked(model: Any) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Ask a query of the file with these rows."""
    connection = model.written() if model.file is None else duckdb.connect(str(model.file), read_only=True)
    connection.execute("SET TimeZone = 'UTC'")

    def ask(sql: str) -> list[dict[str, Any]]:
        cursor = connection.execute(sql)
        names = [name for name, *_ in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    yield ask
    connection.close()
