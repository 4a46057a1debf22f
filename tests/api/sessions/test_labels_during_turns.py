"""Metadata and keys that are set while a session takes a turn are not undone by that turn."""

import asyncio
from pathlib import Path

import pytest

from tests.support.fixture_types import OpenApp
from tests.support.held_model import HeldModel

SLOW = """
script: slow
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ask: Ready?
            id: ready
          - ai_say: Thinking about it.
            id: think
          - ask: Well?
            id: well
"""


@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 0), (1, 1)])
async def test_turn_does_not_undo_a_label_when_its_session_is_evicted(
    app: OpenApp, tmp_path: Path, before: int, after: int
) -> None:
    """Other sessions displace it before the label is set, or also after; the cache has room for one."""
    model = HeldModel()
    async with app(tmp_path, model, session_cache_max=1) as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        path = f"/api/sessions/{session['sessionId']}"
        turn = asyncio.create_task(api.send_message(session, {"content": "yes"}))
        await model.asked.wait()
        for _ in range(before):
            await api.create_session("diary", user="ben")
        labels = {"metadata": {"ward": "3"}, "key": "telegram:1"}
        assert (await api.patch(path, json=labels)).status_code == 200
        for _ in range(after):
            await api.create_session("diary", user="ben")
        model.go.set()
        assert (await turn).status_code == 200
        found = await api.read(path)
        assert (found["turn"], found["key"], found["metadata"]["ward"]) == (1, "telegram:1", "3")
