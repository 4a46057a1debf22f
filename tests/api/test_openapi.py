"""The description of the API is the whole truth: requests made from it meet no 5xx and no answer it does not name."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from api.cli.reach import reach
from api.settings import Settings

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
RUN_S = 300.0


@pytest.mark.slow
@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize("known", [True, False], ids=["on what is there", "on anything"])
async def test_no_request_meets_an_answer_that_is_not_described(serve: Any, tmp_path: Path, known: bool) -> None:
    server = serve(CUEBOOK_WEBHOOK_PRIVATE_TARGETS="127.0.0.1:9")
    await server.ready()
    async with reach(Settings(data=server.folder / "data"), managing=True) as beside:
        made: Any = await beside.send("POST", "/api/keys", {"name": "a test", "roles": ["admin"]})
    async with server.client(headers={"Authorization": f"Bearer {made['key']}"}) as api:
        body = {"url": "http://127.0.0.1:9/", "events": ["turn"]}
        webhook = (await api.post("/api/webhooks", json=body)).json()["webhookId"]
        session = await api.begin("visit", key="telegram:1")
        await api.message(session, {"content": "Ana"})
        units = {"userId": "ana", "group": "diary", "units": [{"content": "I moved to Lisbon.", "unitId": "known"}]}
        await api.post("/api/memory/units", json=units)
        job = (await api.post("/api/memory/summarise", json={"userId": "ana"})).json()["job"]["jobId"]
        delivery = (await api.read(f"/api/webhooks/{webhook}/deliveries"))["data"][0]["deliveryId"]
    parameters = {"session_id": session["sessionId"], "script_id": "visit", "user_id": "ana", "key": "telegram:1"}
    parameters |= {"webhook_id": webhook, "delivery_id": delivery}
    parameters |= {"unit_id": "known", "group_id": "diary", "job_id": job}
    config = tmp_path / "schemathesis.toml"
    lines = [f'{name} = "{value}"' for name, value in parameters.items()]
    config.write_text("\n".join(["[parameters]", *(lines if known else [])]) + "\n")
    found = await asyncio.to_thread(
        subprocess.run,
        [
            *(SCHEMATHESIS, "--config-file", config, "run", f"{server.url}/schema/openapi.json"),
            *("--checks", ",".join(CHECKS), "--phases", "examples,fuzzing", "--max-examples", "8"),
            *("--header", f"Authorization: Bearer {made['key']}"),
            *("--seed", "1", "--generation-database", "none", "--request-timeout", "60", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    assert found.returncode == 0, found.stdout[-10_000:] + found.stderr[-2_000:]
