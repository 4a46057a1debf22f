"""The guide to several servers is correct, and the files for Docker fit to it and to the settings."""

import asyncio
import re
import shlex
import signal
import subprocess
from configparser import ConfigParser
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from api.settings import Settings
from tests.support.paths import CUEBOOK, ROOT
from tests.support.ports import free_port
from tests.support.postgres_server import PostgresServer
from tests.support.server_process import START_S, clean_environment, start_cuebook

DEPLOY = ROOT / "docs/deploy"
PAGE = (ROOT / "docs/how-to/several-servers.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh postgres\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
ADDRESS = "postgresql://cuebook@db.example.com/cuebook"


async def started(command: str, url: str, folder: Path) -> tuple[Any, str]:
    """Start a server as a line of the guide does, on a free port; return its process and its address."""
    arguments = [part for part in shlex.split(command.replace(ADDRESS, url))[1:] if part != "8001"]
    arguments = [part for part in arguments if part != "--port"]
    port = free_port()
    process = start_cuebook([*arguments, "--port", str(port)], folder, folder / "log", clean_environment())
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(int(START_S * 10)):
            try:
                if (await client.get("/ready")).status_code == 200:
                    return process, f"http://127.0.0.1:{port}"
            except httpx.TransportError:
                assert process.poll() is None, (folder / "log").read_text()
            await asyncio.sleep(0.1)
    raise AssertionError((folder / "log").read_text())


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_commands_of_the_guide(tmp_path: Path, postgres: PostgresServer) -> None:
    first, second, copy = BLOCKS
    url = postgres.new_database()
    one, address_one = await started(first, url, tmp_path)
    prepare, _, start = second.partition("cuebook serve")
    subprocess.run(["sh", "-ec", prepare], check=True, cwd=tmp_path)  # noqa: ASYNC221
    two, address_two = await started(f"cuebook serve{start}", url, tmp_path)
    async with httpx.AsyncClient(timeout=START_S) as client:
        begun = await client.post(f"{address_one}/api/sessions", json={"userId": "ana", "scriptId": "intake"})
        path = f"/api/sessions/{begun.json()['sessionId']}"
        answer = await client.post(f"{address_two}{path}/messages", json={"content": "Ana"})
        assert answer.json()["turn"] == 1
    for process in (one, two):
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    back = copied(copy.replace("cuebook-data", url).replace(ADDRESS, "cuebook-data"), tmp_path)
    assert "to cuebook-data; both have the same rows." in back
    assert "both have the same rows." in copied(copy.replace(ADDRESS, postgres.new_database()), tmp_path)


def copied(command: str, folder: Path) -> str:
    """Run `cuebook copy` and return what it prints."""
    arguments = shlex.split(command)[1:]
    done = subprocess.run(
        [CUEBOOK, *arguments], capture_output=True, text=True, cwd=folder, env=clean_environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    return found


def test_settings_of_the_containers_exist() -> None:
    names = {
        name.removeprefix("CUEBOOK_").lower()
        for service in compose()["services"].values()
        for name in service.get("environment", {})
        if name.startswith("CUEBOOK_")
    }
    names |= {name.lower() for name in re.findall(r"CUEBOOK_(\w+)=", (DEPLOY / "Dockerfile").read_text("utf-8"))}
    assert {"database", "key_folder", "data"} <= names <= set(Settings.__struct_fields__)


def test_services_refer_to_what_is_there() -> None:
    file = compose()
    services = file["services"]
    assert {name for name in services if name.startswith("server-")} == {"server-1", "server-2"}
    for service in services.values():
        assert set(service.get("depends_on", {})) <= services.keys()
        assert set(service["networks"]) <= file["networks"].keys()
        assert "image" in service
        for condition in service.get("depends_on", {}).values():
            assert condition["condition"] == "service_healthy"
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in file["volumes"]
    for name in set(services) - {"proxy"}:
        assert "healthcheck" in services[name]
    build = services["server-1"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"


def test_proxy_knows_the_servers_and_does_not_hold_back_streams() -> None:
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    assert set(re.findall(r"server (server-\d):8000", text)) == {"server-1", "server-2"}
    assert text.count("{") == text.count("}")
    assert "proxy_buffering off;" in text
    statements = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert all(line.endswith((";", "{", "}")) for line in statements)


def test_proxy_sends_a_session_to_one_server_and_lists_to_any() -> None:
    [pattern] = re.findall(r'"~(.+)" \$id;', (DEPLOY / "nginx.conf").read_text("utf-8"))
    named = re.compile(pattern.replace("(?<", "(?P<"))
    found = named.match("/api/sessions/01a22434-cfb5-7000-b783-3ccdad28a2f7/messages")
    assert found is not None
    assert found["id"] == "01a22434-cfb5-7000-b783-3ccdad28a2f7"
    assert not any(named.match(f"/api/sessions/{path}") for path in ("by-key", "search", "import"))


def test_the_proxy_passes_the_host_with_its_port() -> None:
    """A browser that does not say whether a page is of the same origin is checked by the host that it requested."""
    assert "proxy_set_header Host $http_host;" in (DEPLOY / "nginx.conf").read_text("utf-8")


def test_image_runs_on_processors_other_than_its_builders() -> None:
    assert "HNSWLIB_NO_NATIVE=1" in (DEPLOY / "Dockerfile").read_text("utf-8").partition("pip install")[0]


def test_a_replaced_server_has_the_address_that_the_proxy_knows() -> None:
    file = compose()
    [network] = file["networks"]["inside"]["ipam"]["config"]
    addresses = [file["services"][name]["networks"]["inside"]["ipv4_address"] for name in ("server-1", "server-2")]
    assert len(set(addresses)) == 2
    assert all(ip_address(address) in ip_network(network["subnet"]) for address in addresses)


def test_systemd_unit_starts_a_server_and_waits_for_its_turns() -> None:
    unit = ConfigParser(interpolation=None)
    unit.read(DEPLOY / "cuebook.service", "utf-8")
    program, command, *options = unit["Service"]["ExecStart"].split()
    assert (Path(program).name, command) == ("cuebook", "serve")
    described = subprocess.run([CUEBOOK, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    assert all(option in described for option in options if option.startswith("--"))
    assert float(unit["Service"]["TimeoutStopSec"]) >= Settings().stop_delay_s + Settings().turn_s + 15


def test_the_image_copies_what_is_in_the_repository() -> None:
    lines = (DEPLOY / "Dockerfile").read_text("utf-8").splitlines()
    assert [line.split()[0] for line in lines if line and line[0].isupper()].count("FROM") == 2
    assert (ROOT / "api/console/web/build.py").exists()
    assert (ROOT / ".ci/constraints.txt").exists()
