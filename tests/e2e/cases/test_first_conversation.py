"""The counselling script of the library, played with what a language model said once: in tests, on a server, again."""

import asyncio
import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from api.cli.main import main
from api.testing.cases.case_model import FoundCase
from api.testing.cases.case_reader import read_cases
from api.testing.cases.case_run import run_case
from runtime.models.cassette_file import Replies, ScriptedReply, read_cassette
from runtime.models.recorded_models import ScriptedModel
from runtime.prompts.shapes import shape_of
from runtime.state.ports import ModelReply, ModelRequest
from tests.support.fixture_types import OpenApp
from tests.support.openai_server import Endpoint
from tests.support.paths import CASES_FOLDER, LIBRARY

FOLDER = LIBRARY / "first_conversation"
CASES = [
    found for found in read_cases(CASES_FOLDER / "first_conversation.case.yaml", {}).cases if found.cassette is not None
]


def as_sent(request: ModelRequest, reply: ModelReply) -> str | dict[str, Any]:
    """Return a reply as an endpoint would send it."""
    shape = shape_of(request)
    if shape is None:
        return reply.text
    if request.purpose == "detect":
        seen = {name: {"score": 0, "label": ""} for name in request.detectors}
        return {"detected": seen | msgspec.to_builtins(reply.detected)}
    return {name: getattr(reply, name) for name in shape["properties"] if getattr(reply, name) is not None}


async def sent_in(found: FoundCase) -> list[str | dict[str, Any]]:
    """Return what an endpoint sent in a case, in its order."""
    result = await run_case(found)
    assert result.passed, result.failures
    calls = [call for turn in result.turns for call in turn.model_calls]
    return [as_sent(call.request, call.reply) for call in calls if call.reply is not None]


def record(found: FoundCase, endpoint: Any, folder: Path) -> Replies:
    """Return what is recorded of a case when an endpoint says what its file has."""
    for content in asyncio.run(sent_in(found)):
        endpoint.will(content=content)
    case = {name: value for name, value in msgspec.to_builtins(found.case).items() if value not in (None, [], {})}
    file = {"script": str(FOLDER / "first_conversation.yaml"), "cases": [case | {"model": "recorded.yaml"}]}
    (folder / "recorded.case.yaml").write_bytes(msgspec.json.encode(file))
    settings = {"CUEBOOK_MODEL": "openai:tea-1", "CUEBOOK_MODEL_URL": endpoint.url, "CUEBOOK_MODEL_KEY": "sk-test"}
    done = CliRunner().invoke(main, ["test", str(folder / "recorded.case.yaml"), "--record"], env=settings)
    assert done.exit_code == 0, done.output
    return read_cassette(folder / "recorded.yaml")


def without_measures(replies: Replies) -> dict[str, list[Any]]:
    """Return the replies but for what depends on the day, the machine and the wording of prompts."""
    return {name: [_without(each) for each in rounds] for name, rounds in replies.items()}


def _without(written: Any) -> Any:
    if isinstance(written, Sequence) and not isinstance(written, str):
        return [_without(each) for each in written]
    if not isinstance(written, ScriptedReply) or written.usage is None:
        return written
    retained = replace(
        written.usage, latency_ms=0, first_words_ms=None, prompt_digest="", input_tokens=0, cached_tokens=0
    )
    return replace(written, usage=retained)


@pytest.mark.parametrize("found", CASES, ids=lambda found: found.case.locale or "en")
def test_the_same_is_recorded_of_an_endpoint_that_says_the_same(
    found: FoundCase, endpoint: Endpoint, tmp_path: Path
) -> None:
    recorded = record(found, endpoint, tmp_path)
    assert found.cassette is not None
    assert without_measures(recorded) == without_measures(read_cassette(found.cassette))


@pytest.mark.parametrize("found", CASES, ids=lambda found: found.case.locale or "en")
async def test_a_server_and_a_replay_agree_with_the_case(found: FoundCase, app: OpenApp, tmp_path: Path) -> None:
    assert found.cassette is not None
    texts = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.yaml")}
    script = texts.pop("first_conversation.yaml")
    async with app(tmp_path / "data", ScriptedModel.from_file(found.cassette)) as api:
        await api.publish_script(script, files=texts)
        locale = {"locale": found.case.locale} if found.case.locale else {}
        session = answer = await api.create_session("first_conversation", **locale)
        for number, turn in enumerate(found.case.turns):
            if number:
                answer = await api.send_texts(session, turn.say)
            said = [message["content"] for message in answer["messages"] if message["role"] == "ai"]
            assert len(said) == len(turn.expect or said)
            assert all(fnmatch.fnmatchcase(text, each) for text, each in zip(said, turn.expect or said, strict=True))
        assert answer["executionStatus"] == "completed"
        assert answer["variables"].items() >= (found.case.end.scopes.session or {}).items()
        calls = (await api.read(f"/api/sessions/{session['sessionId']}/calls", limit=200))["data"]
    usages = [each.usage for rounds in read_cassette(found.cassette).values() for each in rounds if each.usage]
    retained = [call["usage"] for call in calls]
    assert sum(usage["inputTokens"] for usage in retained) == sum(usage.input_tokens for usage in usages) > 1_000
    assert sorted(usage["promptDigest"] for usage in retained) == sorted(usage.prompt_digest for usage in usages)
    assert {(call["usage"]["model"], call["outcome"], call["used"]) for call in calls} == {("tea-1-0613", "done", True)}
    again = await asyncio.to_thread(
        CliRunner().invoke, main, ["replay", session["sessionId"], "--data", str(tmp_path / "data")]
    )
    assert (again.exit_code, again.stdout.count(": same")) == (0, len(found.case.turns)), again.stdout
