"""The description of the API is the whole truth: requests made from it meet no 5xx and no answer it does not name."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from api.cli.backend import backend
from api.settings import Settings
from tests.support.effort import repeats
from tests.support.fixture_types import Serve

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
EXAMPLES = str(repeats(4))  # requests tried of each operation
RUN_S = 300.0


@pytest.mark.slow
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize("known", [True, False], ids=["on what is there", "on anything"])
async def test_no_request_meets_an_answer_that_is_not_described(serve: Serve, tmp_path: Path, known: bool) -> None:
    server = serve(CUEBOOK_WEBHOOK_PRIVATE_TARGETS="127.0.0.1:9")
    await server.ready()
    async with backend(Settings(data=server.folder / "data"), managing=True) as beside:
        made: Any = await beside.send("POST", "/api/keys", {"name": "a test", "roles": ["admin"]})
    async with server.client(headers={"Authorization": f"Bearer {made['key']}"}) as api:
        body = {"url": "http://127.0.0.1:9/", "events": ["turn"]}
        webhook = (await api.post("/api/webhooks", json=body)).json()["webhookId"]
        session = await api.create_session("visit", key="telegram:1")
        await api.send_message(session, {"content": "Ana"})
        units = {"userId": "ana", "group": "diary", "units": [{"content": "I moved to Lisbon.", "unitId": "known"}]}
        await api.post("/api/memory/units", json=units)
        job = (await api.post("/api/memory/summarise", json={"userId": "ana"})).json()["job"]["jobId"]
        link = (await api.post("/api/links", json={"scriptId": "visit"})).json()["linkId"]
        new = {"userId": "ana", "scriptId": "visit"}
        participant = (await api.post("/api/participants/tokens", json=new)).json()["participantId"]
        delivery = (await api.read(f"/api/webhooks/{webhook}/deliveries"))["data"][0]["deliveryId"]
    parameters = {"sessionId": session["sessionId"], "scriptId": "visit", "userId": "ana", "key": "telegram:1"}
    parameters |= {"webhookId": webhook, "deliveryId": delivery}
    parameters |= {"linkId": link, "participantId": participant}
    parameters |= {"unitId": "known", "groupId": "diary", "jobId": job}
    config = tmp_path / "schemathesis.toml"
    lines = [f'{name} = "{value}"' for name, value in parameters.items()]
    config.write_text("\n".join(["[parameters]", *(lines if known else [])]) + "\n")
    found = await asyncio.to_thread(
        subprocess.run,
        [
            *(SCHEMATHESIS, "--config-file", config, "run", f"{server.url}/schema/openapi.json"),
            *("--checks", ",".join(CHECKS), "--phases", "examples,fuzzing", "--max-examples", EXAMPLES),
            *("--header", f"Authorization: Bearer {made['key']}"),
            *("--seed", "1", "--generation-database", "none", "--request-timeout", "60", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    assert found.returncode == 0, found.stdout[-10_000:] + found.stderr[-2_000:]
