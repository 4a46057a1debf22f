"""The connection to PostgreSQL is cut around a COMMIT: the turn is committed once, and answered once."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from api.logs.configuration import configure_logging
from store.postgres import committer
from tests.support.advice import ADVICE, CountingModel, advice_of
from tests.support.cut_connections import Cut, CuttingProxy
from tests.support.effort import repeats
from tests.support.fixture_types import OpenApp
from tests.support.postgres_server import PostgresServer
from tests.support.whole_database import assert_verified

pytestmark = [pytest.mark.slow, pytest.mark.gate, pytest.mark.timeout(300)]

CUTS: tuple[Cut, ...] = get_args(Cut)
REPEATS = repeats(20)  # of each cut


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(postgres.folder)
    with proxy.serving():
        yield proxy


@pytest.mark.parametrize("cut", CUTS)
async def test_turn_is_committed_once_although_the_connection_was_cut(
    app: OpenApp, proxy: CuttingProxy, postgres_url: str, tmp_path: Path, cut: Cut
) -> None:
    async with (
        app(tmp_path / "cut", database=proxy.url(postgres_url)) as api,
        app(tmp_path / "other", database=postgres_url) as other,
    ):
        for number in range(REPEATS):
            proxy.cut(cut)
            session = await api.create_session("diary", key=f"diary {number}")
            assert session["turn"] == 0
            for turn in (1, 2):
                proxy.cut(cut)
                message, headers = {"content": f"entry {turn}"}, {"Idempotency-Key": f"{turn}"}
                answers = [await each.send_message(session, message, headers) for each in (api, other, api)]
                assert [answer.status_code for answer in answers] == [200, 200, 200]
                assert {answer.json()["turn"] for answer in answers} == {turn}
                assert len({answer.content for answer in answers}) == 1
            said = [text for role, text in await other.transcript(session) if role == "user"]
            assert said == ["entry 1", "entry 2"]
        assert proxy.cuts == 3 * REPEATS
        await assert_verified(other, postgres_url)


@pytest.mark.parametrize("cut", CUTS)
async def test_turn_of_unknown_outcome_is_answered_when_sent_again(
    app: OpenApp, proxy: CuttingProxy, postgres_url: str, tmp_path: Path, cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database cannot be asked any more: the client gets an error, and repeats the request with its key."""
    configure_logging("error")  # of a server: that of a terminal takes three seconds for each traceback
    async with (
        app(tmp_path / "cut", database=proxy.url(postgres_url)) as api,
        app(tmp_path / "other", database=postgres_url) as other,
    ):
        session = await api.create_session("diary")
        for turn in range(1, REPEATS + 1):
            proxy.cut(cut)
            message, headers = {"content": f"entry {turn}"}, {"Idempotency-Key": f"{turn}"}
            with monkeypatch.context() as at_once:
                at_once.setattr(committer, "RETRY_S", 0.0)
                lost = await api.send_message(session, message, headers)
            assert (lost.status_code, lost.json()["error"]["code"]) == (503, "DATABASE_UNAVAILABLE"), lost.text
            assert "retry-after" in lost.headers
            answers = [await each.send_message(session, message, headers) for each in (api, other)]
            assert [(answer.status_code, answer.json().get("turn")) for answer in answers] == [(200, turn)] * 2
        said = [text for role, text in await other.transcript(session) if role == "user"]
        assert said == [f"entry {turn}" for turn in range(1, REPEATS + 1)]
        await assert_verified(other, postgres_url)


async def test_model_calls_are_recorded_once_despite_cut_connections(
    app: OpenApp, proxy: CuttingProxy, postgres_url: str, tmp_path: Path
) -> None:
    """Each turn commits three times: that the call begins, that it has ended, and the turn."""
    model, chance, turns = CountingModel(), random.Random(1), 0
    async with (
        app(tmp_path / "cut", model, database=proxy.url(postgres_url)) as api,
        app(tmp_path / "other", database=postgres_url) as other,
    ):
        await api.publish_script(ADVICE, strict=False)
        for number in range(REPEATS):
            session, expected = await api.create_session("advice", key=f"advice {number}"), []
            for cuts in chance.sample([*itertools.product(CUTS, repeat=3)], 3):
                proxy.cut(*cuts)
                answer = await api.send_message(session, {"content": "rain"})
                turns += 1
                assert (answer.status_code, model.calls) == (200, turns), answer.text
                expected.append(f"Advice {turns}.")
            assert await advice_of(other, session) == expected
            calls = await other.read(f"/api/sessions/{session['sessionId']}/calls")
            assert [call["used"] for call in calls["data"]] == [True] * 3
        assert proxy.cuts == 9 * REPEATS
        await assert_verified(other, postgres_url)
