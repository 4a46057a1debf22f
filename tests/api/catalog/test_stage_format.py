"""Scripts of the stage form where people meet them: on the command line and over HTTP."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import RunCommand
from tests.support.paths import STAGE_SCRIPTS

REPLIES = ["Ana", "4", "L", "no", "yes"]
SAID = [
    "Welcome to the kitchen.",
    "Ask what to call the cook.",
    "Ask how many will eat.",
    "Soup for 4, Ana!",
    "Then wash the leek.",
    "Ana, is it good?",
    "Ana, is it good?",
    "Enjoy Ana's soup.",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the scripts and what lies beside them."""
    return Path(shutil.copytree(STAGE_SCRIPTS, tmp_path / "stage"))


def transcript(cuebook: Callable[..., Any], script: Path, replies: Path) -> list[list[str]]:
    result = cuebook("play", script, "--inputs", replies, "--json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["status"] == "completed"
    return [[message["content"] for message in turn["messages"]] for turn in report["turns"]]


def test_a_script_and_its_conversion_are_played_alike(cuebook: RunCommand, folder: Path) -> None:
    replies = folder / "replies.txt"
    replies.write_text("\n".join(REPLIES) + "\n")
    played = transcript(cuebook, folder / "cooking.yaml", replies)
    assert [text for turn in played for text in turn if text] == SAID
    result = cuebook("convert", folder / "cooking.yaml", "-o", folder / "native.yaml")
    assert result.exit_code == 0, result.stderr
    assert transcript(cuebook, folder / "native.yaml", replies) == played


def test_conversion_keeps_comments_and_names_include_files(cuebook: RunCommand, folder: Path) -> None:
    text = cuebook("convert", folder / "moving.yaml").stdout
    assert "use: [global.yaml, roles.yaml, skills.yaml, forms.yaml, rules.yaml]" in text
    for comment in ("# 一次搬家的谈话", "# 是否自己开车", "# 开场白", "第二阶段", "# - say: 以前这里还有一段"):
        assert comment in text


def test_check_finds_nothing_wrong_but_what_is_odd(cuebook: RunCommand, folder: Path) -> None:
    result = cuebook("check", folder / "moving.yaml", "--format", "json")
    assert result.exit_code == 0
    assert "PYTHON_REFUSED" in result.stdout
    assert '"error"' not in result.stdout
    assert cuebook("check", folder).exit_code == 0  # include files are no scripts


async def test_a_script_with_its_side_files_runs_over_http(api: ApiClient) -> None:
    files = {
        path.name: path.read_text("utf-8")
        for path in STAGE_SCRIPTS.glob("*.yaml")
        if path.name not in {"moving.yaml", "cooking.yaml"}
    }
    text = (STAGE_SCRIPTS / "cooking.yaml").read_text("utf-8")
    refused = await api.post("/api/scripts", json={"yamlContent": text, "files": files})
    assert {detail["code"] for detail in refused.json()["error"]["details"] if detail["severity"] == "error"} == {
        "PYTHON_REFUSED"
    }
    await api.publish_script(text, strict=False, files=files)
    session = await api.create_session("first soup")
    await api.send_texts(session, *REPLIES)
    said = [content for role, content in await api.transcript(session) if role == "assistant" and content]
    assert said == SAID
