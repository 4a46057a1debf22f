"""``cuebook simulate``: traffic into a record of its own."""

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

SCRIPT = """\
script: hello
phases:
  - phase: main
    topics:
      - topic: name
        actions:
          - {ask: Your name?, id: ask_name, output: [{get: name}]}
          - {say: "Hello {{ name }}.", id: greet}
"""
Cuebook = Callable[..., Result]
Write = Callable[[str, str], Path]


def test_traffic_is_simulated_and_counted(cuebook: Cuebook, write: Write) -> None:
    script = write("hello.yaml", SCRIPT)
    asked = ("simulate", script, "--sessions", 12, "--users", 5, "--days", 7, "--until", "2026-03-04", "--data", "one")
    result = cuebook(*asked, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["sessions"] == 12
    assert document["users"] == 5
    assert (document["since"], document["until"]) == ("2026-02-25T00:00:00Z", "2026-03-04T00:00:00Z")
    assert document["turns"] > 12
    assert "simulated 12 sessions" in result.stderr
    listed = json.loads(cuebook("sessions", "list", "--data", "one", "--limit", 50, "--json").stdout)
    assert {each["userId"][:5] for each in listed["data"]} == {"sim1-"}
    assert len(listed["data"]) == 12


def test_existing_database_is_extended_only_on_request(cuebook: Cuebook, write: Write) -> None:
    asked = ("simulate", write("hello.yaml", SCRIPT), "--sessions", 3, "--data", "one")
    assert cuebook(*asked).exit_code == 0
    refused = cuebook(*asked)
    assert refused.exit_code == 2
    assert "--append" in refused.stderr
    again = cuebook(*asked, "--append")
    assert again.exit_code == 2
    assert "--seed" in again.stderr
    assert cuebook(*asked, "--append", "--seed", 2).exit_code == 0


def test_what_cannot_be_simulated_is_reported(cuebook: Cuebook, write: Write, tmp_path: Path) -> None:
    script = write("broken.yaml", SCRIPT.replace("say:", "sya:"))
    broken = cuebook("simulate", script, "--data", "one")
    assert broken.exit_code == 2
    assert "cuebook check" in broken.stderr
    (tmp_path / "none").mkdir()
    empty = cuebook("simulate", "none", "--data", "one")
    assert empty.exit_code == 2
    assert "there is no script in none" in empty.stderr
    date = cuebook("simulate", "--until", "soon", "--data", "one")
    assert date.exit_code == 2
    assert "--until takes a date or a time" in date.stderr
    assert not (tmp_path / "one").exists()
