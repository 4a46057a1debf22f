"""What becomes of the recorded calls of tools: masked exports, imports, redaction and erasure."""

from pathlib import Path

from tests.api.tools.test_http_tools import asked, script, shop_app
from tests.support.fixture_types import OpenApp
from tests.support.tool_service import ToolService

PERSONAL = "Rosa Luxemburg"


async def test_masked_export_hides_what_the_service_knows(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        service.will({"status": PERSONAL})
        text = script(service).replace("phases:", "declare: [{var: status, type: text, pii: true}]\nphases:")
        session, _ = await asked(api, text, "17")
        path = f"/api/sessions/{session['sessionId']}/export"
        whole = (await api.get(path)).text
        masked = (await api.get(path, params={"masked": True})).text
        assert PERSONAL in whole
        assert PERSONAL not in masked
        assert "tool_result" in masked
        assert '"17"' not in masked.partition('"tool_call"')[2].partition('"tool_result"')[0]


async def test_exported_session_with_calls_can_be_imported(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        service.will({}, 404)
        session, _ = await asked(api, script(service), "17")
        document = (await api.get(f"/api/sessions/{session['sessionId']}/export")).json()
        imported = await api.post("/api/sessions/import", json=document, params={"copy": True})
        assert imported.status_code in {200, 201}, imported.text
        calls = await api.read(f"/api/sessions/{imported.json()['sessionId']}/calls", debug=True)
        assert calls["data"][0]["reply"]["failure"]["kind"] == "refused"


async def test_erased_user_leaves_no_call(app: OpenApp, tmp_path: Path):
    async with ToolService().serving() as service, shop_app(app, tmp_path, service) as api:
        session, _ = await asked(api, script(service), "17")
        erased = await api.delete("/api/users/ana")
        assert erased.status_code == 200, erased.text
        assert (await api.get(f"/api/sessions/{session['sessionId']}/calls")).status_code == 404
