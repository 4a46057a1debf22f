"""A server with language models: how they are set, chosen and looked at, and that nothing ever shows their keys."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from api.local_files.settings_file import load_settings
from api.logs.configuration import configure_logging
from api.models.server_model import ModelUnknown, close_model, make_model, state_of
from api.settings import Settings, SettingsInvalid
from runtime.models.hosted.settings import Secret
from tests.support.fixture_types import OpenApp, RunCommand, Serve, WriteFile
from tests.support.openai_server import Endpoint

KEY = "sk-recognisable-7f3a9c"
PRIVATE = "Ana of Tregaron"

LEADING = """
script: leading
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ai_ask: Find out the name.
            id: ask_name
            exit: the name is known
            output: [{get: name}]
          - say: Bye, {{ name }}.
"""
JUDGED = {
    "progress": "completed",
    "exit": True,
    "exit_reason": "it is known",
    "understanding": 90,
    "has_questions": False,
    "values": {"name": "Ana"},
    "text": "",
}
NO_NAME = {**JUDGED, "progress": "continue_needed", "exit": False, "values": {"name": None}, "text": "Who?"}


# -- settings ---------------------------------------------------------------------------------------------------------


def test_models_are_in_the_file_and_keys_in_the_environment(write: WriteFile) -> None:
    file = write(
        "cuebook.toml",
        """
        model = "fast"
        model_url = "http://127.0.0.1:11434/v1"
        model_temperature = 0.2
        [models.fast]
        model = "small-8b"
        url = "https://models.example/v1"
        key_env = "EXAMPLE_KEY"
        fallback = "openai:tiny"
        input_price = 0.5
        """,
    )
    settings = load_settings(file, {}, {"CUEBOOK_MODEL_KEY": KEY, "CUEBOOK_MODEL_ATTEMPTS": "5"})
    assert settings.own_model is not None
    assert (settings.own_model.key.reveal(), settings.own_model.attempts, settings.own_model.temperature) == (
        KEY,
        5,
        0.2,
    )
    assert (settings.models["fast"].fallback, settings.models["fast"].timeout_s) == ("openai:tiny", 30.0)
    assert Settings().own_model is None


def test_further_fields_of_requests_are_tables(write: WriteFile) -> None:
    text = """
        model_url = "http://127.0.0.1:11434/v1"
        model_extra_body = {seed = 7}
        [models.fast]
        extra_body = {reasoning_effort = "low", chat_template_kwargs = {enable_thinking = false}}
        [models.slow.extra_body]
        num_ctx = 16384
        """
    file = write("cuebook.toml", text)
    given = {"model_url": "http://127.0.0.1:11434/v1", "model_extra_body": {"stop": ["7", None]}}
    first, second = load_settings(file, {}, {}), load_settings(file, given, {})
    assert [each.own_model.extra_body for each in (first, second) if each.own_model] == [
        {"seed": 7},
        {"stop": ["7", None]},
    ]
    assert [first.models[name].extra_body for name in ("fast", "slow")] == [
        {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}},
        {"num_ctx": 16384},
    ]


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("model", "`model`"),
        ("messages", "prompts"),
        ("stream", "leave it out"),
        ("stream_options", "leave it out"),
        ("n", "leave it out"),
        ("response_format", "`format`"),
        ("max_tokens", "`output_tokens_max`"),
        ("max_completion_tokens", "`output_tokens_max`"),
        ("temperature", "`temperature`"),
    ],
)
@pytest.mark.parametrize("where", ["[models.fast.extra_body]", "model_url = 'http://localhost/v1'\n[model_extra_body]"])
def test_fields_that_cuebook_sets_are_not_further_ones(write: WriteFile, where: str, name: str, instead: str) -> None:
    file = write("cuebook.toml", f"{where}\nseed = 7\n{name} = 5\n")
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(file, {}, {})
    what = f"`{name}` in the extra_body of a model: Cuebook sets it itself; "
    assert what in str(caught.value)
    assert instead in str(caught.value).split(what)[1]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('model_url = "ftp://127.0.0.1"\n', ["https:// or http://"]),
        ('model_url = "127.0.0.1:8000"\n', ["https:// or http://"]),
        ('model_url = "https://models.example:port/v1"\n', ["https:// or http://"]),
        ('model_url = "https://[::1/v1"\n', ["https:// or http://"]),
        ('model_url = "https://models. example/v1"\n', ["https:// or http://"]),
        (f'model_key = "{KEY}…"\n', ["printable ASCII characters"]),
        (f'[models.fast]\nkey = "{KEY} {KEY}"\n', ["printable ASCII characters"]),
        (f'model_url = "http://models.example/v1"\nmodel_key = "{KEY}"\n', ["over http", "https"]),
        (f'model_url = "https://ana:{KEY}@models.example/v1"\n', ["password"]),
        ('model_url = "https://models.example/v1/chat/completions"\n', ["must not end with /chat/completions"]),
        ('model_attempts = 11\nmodel_url = "http://localhost/v1"\n', ["model_attempts"]),
        ('model_format = "xml"\n', ["model_format"]),
        ("model_key = 5\n", ["model_key", "a text"]),
        (f'[models.slow]\n[models.fast]\nkee = "{KEY}"\n', ["models.fast: there is no setting `kee`"]),
        (f'[models.fast]\nkey = "{KEY}"\nkey_env = "A"\n', ["not from both"]),
        (f'[models.fast]\nurl = "http://models.example"\nkey = "{KEY}"\n', ["models", "https"]),
        (f'[models.offline]\nkey = "{KEY}"\n', ["'offline'"]),
        ('[models."openai:x"]\n', ["'openai:x'"]),
        (f'model_key = "{KEY}\n', ["line 1"]),
        (f'model_key = ["{KEY}"]\n', ["model_key"]),
        ("[models.fast]\nextra_body = 5\n", ["models.fast.extra_body", "an object"]),
        (f"[models.fast.extra_body]\nkey = '{KEY}'\nday = 2026-01-31\n", ["`day`", "JSON value", "a date is a text"]),
        (f"[models.fast.extra_body]\nuser = {{key = '{KEY}', share = nan}}\n", ["`user`", "JSON value", "finite"]),
    ],
)
def test_unusable_model_settings_are_named_without_their_keys(write: WriteFile, text: str, named: list[str]) -> None:
    file = write("cuebook.toml", text)
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(file, {}, {})
    assert str(file) in str(caught.value)
    assert all(each in str(caught.value) for each in named), str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('model = "fats"\n[models.fast]\n', ["model:", "'fats'", "Did you mean `fast`?"]),
        ('model = "gpt"\n', ["'gpt'", "offline", "scripted:FILE", "openai:NAME", "[models.NAME]"]),
        ('model = "scripted:"\n', ["'scripted:'"]),
        ('model = "fast"\n[models.fast]\nfallback = "slow"\n', ["models.fast.fallback", "'slow'"]),
        ('model = "fast"\n[models.fast]\nfallback = "fast"\n', ["models.fast.fallback", "name another"]),
        ('model = "fast"\n[models.fast]\nfallback = "openai:x"\n', ["models.fast.fallback", "model_url or model_key"]),
        ('model = "openai:x"\nmodel_fallback = "y"\n', ["model_fallback", "'y'"]),
        ('model = "fast"\n[models.fast]\nkey_env = "NOT_THERE"\n', ["models.fast.key_env", "NOT_THERE"]),
        ('model = "fast"\n[models.fast]\nkey_env = "ODD_KEY"\n', ["models.fast.key_env", "printable ASCII characters"]),
    ],
)
def test_a_model_that_is_not_there_is_named_at_the_start(
    write: WriteFile, monkeypatch: pytest.MonkeyPatch, text: str, named: list[str]
) -> None:
    monkeypatch.setenv("ODD_KEY", f"{KEY}\u2026")
    settings = load_settings(write("cuebook.toml", text), {}, {})
    with pytest.raises(ModelUnknown) as caught:
        make_model(settings)
    assert all(each in str(caught.value) for each in named), str(caught.value)


def test_a_secret_shows_itself_to_nobody_who_does_not_ask() -> None:
    secret = Secret(KEY)
    settings = load_settings(None, {"model_key": KEY}, {})
    shown = [repr(secret), str(secret), f"{secret}", repr(settings), repr(settings.own_model), repr({"key": secret})]
    assert [text for text in shown if KEY in text] == []
    for encode in (msgspec.json.encode, msgspec.to_builtins, json.dumps):
        with pytest.raises(TypeError):
            encode(settings)
    assert (secret, hash(secret), secret.reveal()) == (Secret(KEY), hash(Secret(KEY)), KEY)
    assert secret != KEY


WITHOUT = """
import sys, api.cli.play, api.cli.serve, api.models.server_model, api.settings
api.models.server_model.make_model(api.settings.Settings())
print([name for name in ("openai", "pydantic", "tenacity", "json_repair") if name in sys.modules])
"""


@pytest.mark.gate
def test_without_a_language_model_its_client_is_not_imported() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- a server ---------------------------------------------------------------------------------------------------------


def settings_for(endpoint: Any, **more: Any) -> Settings:
    return load_settings(None, {"model": "openai:tiny", "model_url": endpoint.url, "model_key": KEY, **more}, {})


async def test_a_conversation_with_a_language_model(app: OpenApp, tmp_path: Path, endpoint: Endpoint) -> None:
    settings = settings_for(endpoint)
    async with app(tmp_path, make_model(settings)) as api:
        await api.publish_script(LEADING)
        assert (await api.read("/ready"))["checks"]["model"] == "openai:tiny: closed"
        endpoint.will(content="What is your name?")
        begun = await api.create_session("leading")
        assert begun["aiMessage"] == "What is your name?"
        endpoint.will(content=NO_NAME)
        assert (await api.send_texts(begun, "Guess!"))["aiMessage"] == "Who?"
        endpoint.will(content=JUDGED)
        assert (await api.send_texts(begun, "Ana"))["aiMessage"] == "Bye, Ana."
    assert {asked.key for asked in endpoint.requests} == {KEY}


async def test_failing_model_is_a_clear_answer_and_the_session_stays(
    app: OpenApp, tmp_path: Path, endpoint: Endpoint
) -> None:
    async with app(tmp_path, make_model(settings_for(endpoint, model_attempts=1))) as api:
        await api.publish_script(LEADING)
        endpoint.will(content="What is your name?")
        begun = await api.create_session("leading")
        endpoint.will(status=500, error=f"the key {KEY} is fine")
        answer = await api.send_message(begun, {"content": "Ana"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "LLM_SERVICE_ERROR")
        assert "model `openai:tiny` reports an internal error (500)" in answer.json()["error"]["message"]
        assert (answer.json()["error"]["recovery"]["canRetry"], "Retry-After" in answer.headers) == (True, True)
        endpoint.will(content=JUDGED)
        assert (await api.send_texts(begun, "Ana"))["aiMessage"] == "Bye, Ana."


async def test_a_script_that_names_a_model_of_no_one_fails_clearly(
    app: OpenApp, tmp_path: Path, endpoint: Endpoint
) -> None:
    text = LEADING.replace("script: leading\n", "script: leading\nmodel: huge\n")
    async with app(tmp_path, make_model(settings_for(endpoint))) as api:
        await api.publish_script(text)
        answer = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "leading"})
        error = answer.json()["error"]
        assert "this server has no model `huge`; it has `openai:NAME`" in error["message"]
        assert (error["code"], error["recovery"]["canRetry"]) == ("LLM_SERVICE_ERROR", False)
        assert "Fix the server's settings" in error["recovery"]["suggestion"]
        assert "Retry-After" not in answer.headers
        assert endpoint.requests == []
    async with app(tmp_path / "offline") as api:  # every script runs on the model that is none
        await api.publish_script(text)
        assert (await api.create_session("leading"))["aiMessage"] == "Find out the name."
        assert (await api.read("/ready"))["checks"]["model"] == "no endpoint"


async def test_the_state_of_the_endpoint_is_reported(endpoint: Endpoint) -> None:
    model = make_model(settings_for(endpoint))
    assert state_of(model) == "openai:tiny: closed"
    await close_model(model)


# -- the command line -------------------------------------------------------------------------------------------------


def test_a_script_is_played_with_a_language_model(cuebook: RunCommand, write: WriteFile, endpoint: Endpoint) -> None:
    script = write("leading.yaml", LEADING)
    write("cuebook.toml", f'[models.fast]\nmodel = "small"\nurl = "{endpoint.url}"\nkey = "{KEY}"\n')
    endpoint.will(content="What is your name?")
    endpoint.will(content=NO_NAME)
    endpoint.will(content=JUDGED)
    result = cuebook("play", script, "--model", "fast", "--inputs", "-", input="Guess!\nAna\n")
    assert result.exit_code == 0, result.stderr
    assert [text in result.stdout for text in ("What is your name?", "Who?", "Bye, Ana.")] == [True] * 3
    assert ({asked.model for asked in endpoint.requests}, endpoint.connections) == ({"small"}, 1)


CASE = """
script: leading.yaml
cases:
  - name: Ana
    model: ana.replies.yaml
    turns:
      - expect: [What is your name?]
      - {say: Ana, expect: ["Bye, Ana."]}
"""


def test_a_case_is_recorded_with_a_language_model(cuebook: RunCommand, write: WriteFile, endpoint: Endpoint) -> None:
    write("leading.yaml", LEADING)
    write("leading.case.yaml", CASE)
    environment = {"CUEBOOK_MODEL_URL": endpoint.url, "CUEBOOK_MODEL": "openai:tiny"}
    endpoint.will(content="What is your name?")
    endpoint.will(content=JUDGED)
    result = cuebook("test", "--record", env=environment)
    assert result.exit_code == 0, result.stdout + result.stderr
    endpoint.always(status=500)
    assert cuebook("test").exit_code == 0


def test_a_model_that_is_none_ends_every_command_alike(cuebook: RunCommand, write: WriteFile) -> None:
    script = write("leading.yaml", LEADING)
    for arguments in (("play", script), ("serve", "--port", "0")):
        result = cuebook(*arguments, "--model", "gpt")
        assert (result.exit_code, "there is no model 'gpt'" in result.stderr) == (2, True)


def test_the_operators_prompts_are_what_a_model_gets(cuebook: RunCommand, write: WriteFile, endpoint: Endpoint) -> None:
    script = write("leading.yaml", LEADING.replace("script: leading", "script: leading\ntemplate_scheme: harbour"))
    arguments = ["play", script, "--model", "openai:tiny", "--inputs", "-"]
    environment = {"CUEBOOK_MODEL_URL": endpoint.url, "CUEBOOK_PROMPTS": "told"}
    write("told/custom/harbour/en/ask.jinja", "Speak like a sailor. {{ task }} {{ data }}")
    endpoint.will(content="Ahoy!")
    assert "Ahoy!" in cuebook(*arguments, input="", env=environment).stdout
    assert endpoint.requests[0].text.startswith("Speak like a sailor. Find out the name.")
    write("told/custom/harbour/en/ask.jinja", "Speak like {{ a sailor.")
    result = cuebook(*arguments, input="", env=environment)
    assert (result.exit_code, "ask.jinja" in result.stderr) == (2, True)


@pytest.mark.gate
async def test_server_warns_of_models_in_scripts_that_it_lacks(
    serve: Serve, write: WriteFile, tmp_path: Path, endpoint: Endpoint
) -> None:
    write(
        "scripts/whole.yaml",
        LEADING.replace("script: leading", "script: whole\nmodel: openai:x\ntemplate_scheme: default"),
    )
    step = "template_scheme: harbor\nmodel: huge"
    text = LEADING.replace("script: leading", f"script: odd\n{step}").replace(
        "exit: the", "model: tall\n            exit: the"
    )
    write("scripts/odd.yaml", text)
    write("scripts/prompts/custom/harbour/en/ask.jinja", "Speak like a sailor. {{ task }} {{ data }}")
    server = serve("--model", "openai:tiny", "--scripts", str(tmp_path / "scripts"), CUEBOOK_MODEL_URL=endpoint.url)
    await server.ready()
    warned = [json.loads(line) for line in server.log.splitlines() if '"warning"' in line]
    assert [(each["script"], each.get("models"), each.get("scheme")) for each in warned] == [
        ("odd", ["huge", "tall"], None),
        ("odd", None, "harbor"),
    ]
    assert await server.stop() == 0


# -- secrets ----------------------------------------------------------------------------------------------------------

FAILURES: list[dict[str, Any]] = [
    {"status": 401, "error": f"Incorrect API key provided: {KEY}"},
    {"status": 429, "error": KEY, "headers": {"Retry-After": "3600"}},
    {"status": 500, "error": {"message": KEY, "code": KEY, "param": KEY}},
    {"status": 400, "error": f"{KEY} does not know response_format"},
    {"status": 302, "headers": {"Location": f"http://127.0.0.1:9/{KEY}"}},
    {"body": f"<html>{KEY}"},
    {"cut": -1},
    {"wait_s": 6.0},
    {"content": ""},
    {"content": '{"texd": "x"}'},
]


@pytest.mark.gate
@pytest.mark.database_file
async def test_the_key_is_nowhere_to_be_seen(serve: Serve, tmp_path: Path, endpoint: Endpoint) -> None:
    settings = f'model_url = "{endpoint.url}"\nmodel_attempts = 1\nmodel_timeout_s = 3\nlog_level = "debug"\n'
    (tmp_path / "cuebook.toml").write_text(settings)
    server = serve("--model", "openai:tiny", CUEBOOK_MODEL_KEY=KEY, OPENAI_LOG="debug")
    await server.ready()
    seen: list[str] = []
    async with server.client() as api:
        await api.publish_script(LEADING)
        for answer in FAILURES:
            endpoint.will(content="What is your name?")
            begun = await api.create_session("leading")
            endpoint.will(**answer)
            said = await api.post(f"/api/sessions/{begun['sessionId']}/messages?debug=true", json={"content": PRIVATE})
            assert said.status_code in {200, 503}, said.text
            seen.append(said.text)
        endpoint.will(content=NO_NAME)
        paths = ("/ready", "/schema/openapi.json", "/schema", f"/api/sessions/{begun['sessionId']}", "/nowhere")
        seen += [(await api.get(path, follow_redirects=True)).text for path in paths]
    assert KEY in {asked.key for asked in endpoint.requests}
    assert await server.stop() == 0
    assert PRIVATE in endpoint.requests[-1].text
    assert [word for word in (PRIVATE, "openai._base_client") if word in server.log] == []
    seen.append(server.log)
    assert [text for text in seen if KEY in text or endpoint.url in text] == []
    written = await asyncio.to_thread(contents, tmp_path)
    assert [name for name, content in written.items() if KEY.encode() in content] == []
    assert any(name.endswith(".duckdb") for name in written)


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files in it."""
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_log_on_a_terminal_leaves_out_what_variables_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    configure_logging("info")
    try:
        open_model(KEY)
    except ValueError as error:
        structlog.get_logger().error("it broke", exc_info=error)
    structlog.reset_defaults()
    shown = capsys.readouterr().err
    assert "ValueError" in shown
    assert "in open_model" in shown
    assert KEY not in shown


def open_model(key: str) -> None:
    """Fail over the key, while a variable holds it."""
    raise ValueError(f"no good: {key}")
