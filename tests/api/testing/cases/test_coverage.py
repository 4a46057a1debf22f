"""What conversations reach of a script: counted by hand here, and shown as text, JSON and a page."""

import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from api.testing.cases.coverage import cover, items_reached
from runtime.engine.engine import run_turn
from runtime.models.offline_model import OfflineModel
from runtime.state.inputs import Reply, Start
from runtime.state.limits import Bounds, Limits
from runtime.state.ports import ModelReply, ModelRequest, OnReply
from runtime.state.program import Program
from runtime.state.state import State
from runtime.turn.context import TurnEnvironment
from scripts.parse.read_script import Source, read_script
from tests.support.fixture_types import RunCommand, WriteFile

SCRIPT = """\
script: fork
phases:
  - phase: one
    topics:
      - topic: t
        actions:
          - ask: How old?
            id: age
            output: [{get: years, type: number}]
          - if: years < 18
            id: young
            then:
              - if: years < 3
                id: tiny
                then: [{say: A baby!, id: baby}]
              - {say: Young., id: child}
          - {say: Old & <wise>., id: old, when: years > 60}
          - choose: drink
            id: drink
            choices:
              - {tea: Tea, actions: [{say: Hot., id: hot, when: years > 20}]}
              - {milk: Milk}
  - phase: two
    when: drink == "milk"
    topics:
      - topic: never
        when: years == 7
        actions: [{end: done, id: done}]
      - topic: last
        actions: [{foreach: "[1, 2] as n", do: [{say: "{{ n }}", id: count}], id: twice}]
default_scope: session
"""

TOTALS = {"phases": 2, "topics": 3, "actions": 11, "branches": 6, "conditions": 8}


def case(name: str, *turns: str) -> str:
    return f"  - {{name: {name}, warnings: null, end: {{status: null}}, turns: [{{}}, {', '.join(turns)}]}}\n"


BABY = case("baby", "say: 2", "choose: milk").replace("say: 2", "{say: 2}").replace("choose: milk", "{choose: milk}")
TEEN = case("teen", "{say: 12}", "{say: the first one}")
SEVEN = case("seven", "{say: 7}", "{say: Milk}")
OLD = case("old", "{say: 70}", "{choose: tea}")


@pytest.fixture
def covered(cuebook: RunCommand, write: WriteFile) -> Callable[..., Any]:
    """Return the coverage of the script above by some cases, as JSON."""
    write("fork.yaml", SCRIPT)

    def run(*cases: str) -> Any:
        write("fork.case.yaml", "script: fork.yaml\ncases:\n" + "".join(cases))
        result = cuebook("test", "fork.case.yaml", "--coverage", "json")
        assert result.exit_code == 0, result.output
        (coverage,) = json.loads(result.stdout)
        assert {kind: coverage[kind]["total"] for kind in TOTALS} == TOTALS
        return coverage

    return run


def counts(coverage: Any) -> list[int]:
    return [coverage[kind]["covered"] for kind in TOTALS]


def test_one_conversation(covered: Callable[..., Any]) -> None:
    coverage = covered(TEEN)
    # one; t; age, young, tiny, child, drink; young then, tiny else, drink tea; old and hot and two: did not hold
    assert counts(coverage) == [1, 1, 5, 3, 3]
    missed = [(each["kind"], each["name"], each["arm"], each["line"]) for each in coverage["missing"]]
    assert missed == [
        ("branch", "one/t/young", "else", 10),
        ("branch", "one/t/tiny", "then", 15),
        ("action", "one/t/baby", "", 15),
        ("action", "one/t/old", "", 17),
        ("condition", "one/t/old", "when held", 17),
        ("branch", "one/t/drink", "milk", 22),
        ("action", "one/t/hot", "", 21),
        ("condition", "one/t/hot", "when held", 21),
        ("phase", "two", "", 23),
        ("condition", "two", "when held", 24),
        ("topic", "two/never", "", 26),
        ("condition", "two/never", "when held", 27),
        ("condition", "two/never", "when did not hold", 27),
        ("action", "two/never/done", "", 28),
        ("topic", "two/last", "", 29),
        ("action", "two/last/twice", "", 30),
        ("action", "two/last/count", "", 30),
    ]
    assert {each["file"] for each in coverage["missing"]} == {"fork.yaml"}


def test_choice_is_covered_by_button_or_words_without_actions(covered: Callable[..., Any]) -> None:
    branches = [
        (SEVEN, {"young then", "tiny else", "drink milk"}),
        (BABY, {"young then", "tiny then", "drink milk"}),
        (OLD, {"young else", "drink tea"}),
    ]
    every = {f"{name} {arm}" for name, arm in [("young", "then"), ("young", "else"), ("tiny", "then")]}
    every |= {"tiny else", "drink tea", "drink milk"}
    for given, reached in branches:
        missing = [each for each in covered(given)["missing"] if each["kind"] == "branch"]
        assert every - {f"{each['name'].split('/')[-1]} {each['arm']}" for each in missing} == reached


def test_a_choice_that_was_not_understood_is_not_reached(covered: Callable[..., Any]) -> None:
    coverage = covered(case("hm", "{say: 30}", '{say: ""}', "{say: water}"))
    assert coverage["branches"]["covered"] == 1  # young else


def test_everything(covered: Callable[..., Any]) -> None:
    coverage = covered(BABY, TEEN, SEVEN, OLD)
    assert counts(coverage) == list(TOTALS.values())
    assert coverage["missing"] == []
    assert coverage["branches"] == {"covered": 6, "total": 6, "percent": 100.0}


def test_as_text(covered: Callable[..., Any], cuebook: RunCommand) -> None:
    covered(TEEN)
    for arguments in (["--coverage", "fork.case.yaml"], ["fork.case.yaml", "--coverage=text"]):
        lines = cuebook("test", *arguments).stdout.splitlines()
        assert "fork.yaml\t1/2\t1/3\t5/11\t3/6\t3/8" in lines
        assert "fork.yaml:10 missed branch one/t/young (else)" in lines


def test_as_a_page(covered: Callable[..., Any], cuebook: RunCommand, tmp_path: Path) -> None:
    covered(TEEN)
    assert cuebook("test", "fork.case.yaml", "--coverage-file", "out.html").exit_code == 0
    page = (tmp_path / "out.html").read_text("utf-8")
    assert "Old &amp; &lt;wise&gt;." in page
    assert "<wise>" not in page
    assert '<li id="s0-10" class="some"><a href="#s0-10">10</a>' in page
    assert "missed: else" in page
    assert '<li id="s0-15" class="none">' in page
    assert "http" not in page  # it needs nothing else
    assert page == cuebook("test", "fork.case.yaml", "--coverage", "html").stdout


def test_a_script_of_the_folder_that_no_case_plays_shows(
    covered: Callable[..., Any], cuebook: RunCommand, write: WriteFile
) -> None:
    covered(TEEN)
    write("alone.yaml", SCRIPT.replace("script: fork", "script: alone"))
    assert "alone.yaml\t0/2\t0/3\t0/11\t0/6\t0/8" in cuebook("test", "--coverage").stdout.splitlines()


def test_side_by_side_with_the_report(covered: Callable[..., Any], cuebook: RunCommand, tmp_path: Path) -> None:
    covered(TEEN)
    document = json.loads(cuebook("test", "fork.case.yaml", "--coverage", "--json").stdout)
    assert document["coverage"][0]["actions"]["percent"] == 45.5
    assert cuebook("test", "--json", "--coverage", "html").exit_code == 2
    assert cuebook("test", "--json", "--coverage-file", "c.json").exit_code == 0
    assert json.loads((tmp_path / "c.json").read_text("utf-8")) == document["coverage"]
    assert cuebook("test", "--coverage-file", "c.txt").exit_code == 0
    assert (tmp_path / "c.txt").read_text("utf-8").startswith("script\tphases")


LEAVING = """\
script: leaving
use: [skills.yaml]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ask: How old?
            id: age
            output: [{get: years, type: number}]
            max_rounds: 1
            on_fail: goto other
          - call: breathe
            id: calm
          - choose: drink
            id: drink
            choices:
              - {tea: Tea, actions: [{end: served, id: served}]}
              - {milk: Milk}
            max_rounds: 1
            on_fail: end
          - ask: Sure?
            id: sure
            output: [{get: yes_or_no, type: boolean}]
            max_rounds: 1
            on_fail: skip
      - topic: other
        actions:
          - {ask: Town?, id: town, output: [{get: town, type: number}], max_rounds: 1, on_fail: end}
"""
SKILLS = """\
skills:
  - skill: breathe
    actions:
      - {say: Breathe., id: breathe}
      - {ask: Better?, id: better, output: [{get: better, type: boolean}]}
      - if: better
        id: is_better
        then:
          - {say: Good., id: good}
"""


@pytest.mark.parametrize(
    ("turns", "taken"),
    [
        (["no idea"], {"age"}),
        (["no idea", "12"], {"age"}),
        (["no idea", "here"], {"age", "town"}),
        (["7", "yes", "water"], {"drink"}),
        (["7", "yes", "tea"], set()),
        (["7", "yes", "milk", "hm", "12"], set()),
    ],
)
def test_an_on_fail_that_leads_away_is_a_branch(
    cuebook: RunCommand, write: WriteFile, turns: list[str], taken: set[str]
) -> None:
    write("leaving.yaml", LEAVING)
    write("skills.yaml", SKILLS)
    said = [f"{{say: {each!r}}}" for each in turns]
    write("leaving.case.yaml", "script: leaving.yaml\ncases:\n" + case("leaving", *said))
    (coverage,) = json.loads(cuebook("test", "leaving.case.yaml", "--coverage", "json").stdout)
    missing = {each["name"].split("/")[-1] for each in coverage["missing"] if each["arm"] == "on_fail"}
    assert {"age", "drink", "town"} - missing == taken


FAILING = """
cuebook: 1
script: failing
actions:
  - ask: How old?
    id: age
    into: {var: age, type: number}
    rounds: 1
    on_fail: {say: Never mind., do: [{set: {age: 18}, id: set}]}
  - choose: Which?
    id: which
    into: which
    choices: [{key: adult, when: age > 18, text: Adults}]
    on_fail: end
"""


@pytest.mark.parametrize(
    ("turns", "taken"),
    [(["no idea"], {"age", "which"}), (["30", "Adults"], set()), (["30", "hm"], set()), (["7"], {"which"})],
)
def test_on_fail_actions_and_no_remaining_choices_are_branches(
    cuebook: RunCommand, write: WriteFile, turns: list[str], taken: set[str]
) -> None:
    write("failing.yaml", FAILING)
    said = [f"{{say: {each!r}}}" for each in turns]
    write("failing.case.yaml", "script: failing.yaml\ncases:\n" + case("failing", *said))
    (coverage,) = json.loads(cuebook("test", "failing.case.yaml", "--coverage", "json").stdout)
    missing = {each["name"].split("/")[-1] for each in coverage["missing"] if each["arm"] == "on_fail"}
    assert {"age", "which"} - missing == taken


STRAYING = """
script: straying
on_budget: [{say: Later., id: later}]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ai_ask: Sleep?, id: slept, max_rounds: 1, on_fail: end, on_blocked: goto u, on_off_topic: {say: Hm.}}
      - {topic: u, actions: [{ai_ask: And?, id: rest, max_rounds: 1, on_fail: end}]}
"""


class Judging(OfflineModel):
    """Judges every reply to be what it says itself."""

    def goes_to(self, request: ModelRequest) -> str:
        return "judging"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        said = request.reply
        return ModelReply(text="Well?", exit=False, progress="blocked" if said == "blocked" else "continue_needed")


@pytest.mark.parametrize(
    ("turns", "taken"),
    [
        (["blocked"], {"p/t/slept (on_blocked)"}),
        (["off topic"], set()),
        (["blocked", "well"], {"p/t/slept (on_blocked)"}),
    ],
)
async def test_a_policy_that_gives_up_is_a_branch_and_no_on_fail(turns: list[str], taken: set[str]) -> None:
    reading = read_script(Source(STRAYING, "straying.yaml"))
    assert reading.script is not None
    program, state, played = Program(reading.script), State(seed=1, locale="en"), []
    ids = itertools.count()
    for given in [Start(), *map(Reply, turns)]:
        turn = await run_turn(
            program,
            state,
            given,
            TurnEnvironment(
                model=Judging(),
                now=datetime(2026, 3, 4, tzinfo=UTC),
                ids=lambda: str(next(ids)),
                limits=Limits(turn_budget=Bounds(calls=2 if given != Reply("blocked") else 1)),
            ),
        )
        state = turn.state
        played.append(turn)
    reached = items_reached(program, played)
    coverage = cover(program, [reached])
    assert {str(item) for item in coverage.items if item.kind == "branch"} == {
        "p/t/slept (on_fail)", "p/t/slept (on_blocked)", "p/u/rest (on_fail)"
    }  # fmt: skip
    assert {str(item) for item in reached & coverage.items.keys() if item.kind == "branch"} == taken
    assert ("on_budget/later" in {str(item) for item in reached}) is ("blocked" in turns)


def test_what_is_missed_in_a_side_file_is_named_with_that_file(cuebook: RunCommand, write: WriteFile) -> None:
    write("talk/leaving.yaml", LEAVING)
    write("talk/skills.yaml", SKILLS)
    write("talk/leaving.case.yaml", "script: leaving.yaml\ncases:\n" + case("a", "{say: 7}", "{say: no}"))
    done = cuebook("test", "talk", "--coverage")
    assert "talk/skills.yaml:9 missed branch skill:breathe/is_better (then)" in done.stdout.splitlines()
    assert "talk/skills.yaml:9 missed action skill:breathe/good" in done.stdout.splitlines()
    (coverage,) = json.loads(cuebook("test", "talk", "--coverage", "json").stdout)
    assert ("talk/skills.yaml", 9) in {(each["file"], each["line"]) for each in coverage["missing"]}
    page = cuebook("test", "talk", "--coverage", "html").stdout
    heading = page.index(">talk/skills.yaml</h2>")
    assert page.index("missed: then") > heading


INTERRUPTED = """\
script: interrupted
interrupts:
  - interrupt: break
    on: {keywords: [break]}
    do:
      - {ask: "How long?", id: how_long, output: [{get: minutes, type: number}]}
      - {say: See you., id: see_you, when: minutes > 60}
    then: resume
  - {interrupt: stop, on: {keywords: [stop]}, then: end}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ask: Town?, id: town, output: [{get: town}], on_fail: end}
          - {choose: drink, id: drink, question: Which?, choices: [tea, milk]}
"""


@pytest.mark.parametrize(
    ("turns", "missed"),
    [
        (
            ["Rome", "tea"],
            {"how_long", "see_you", "break (came up)", "stop (came up)", "town (on_fail)", "drink (milk)"},
        ),
        (["Rome", "break", "5", "milk"], {"see_you", "stop (came up)", "town (on_fail)", "drink (tea)"}),
        (["break", "90", "stop"], {"drink", "town (on_fail)", "drink (tea)", "drink (milk)"}),
    ],
)
def test_an_interrupt_is_a_branch_with_actions_of_its_own(
    cuebook: RunCommand, write: WriteFile, turns: list[str], missed: set[str]
) -> None:
    write("interrupted.yaml", INTERRUPTED)
    said = [f"{{say: {each!r}}}" for each in turns]
    write("interrupted.case.yaml", "script: interrupted.yaml\ncases:\n" + case("a", *said))
    done = cuebook("test", "interrupted.case.yaml", "--coverage", "json")
    assert done.exit_code == 0, done.stdout
    (coverage,) = json.loads(done.stdout)
    names = {
        each["name"].split("/")[-1].removeprefix("interrupt:") + f" ({each['arm']})" * bool(each["arm"])
        for each in coverage["missing"]
        if each["kind"] != "condition"
    }
    assert names == missed


DESPAIR = """\
cuebook: 1
script: despair
detectors: [{detector: crisis, rules: [{words: [despair]}]}]
interrupts: [{interrupt: help, on: {detector: crisis}, do: [{choose: Call?, into: call, id: call, choices: [a, b]}]}]
actions:
  - choose: How are you?
    into: mood
    id: mood
    choices: [{well: Well}, {key: bad, text: In despair, do: [{say: I am sorry., id: sorry}]}]
"""


def test_a_choice_that_a_detector_interrupts_is_reached(cuebook: RunCommand, write: WriteFile) -> None:
    write("despair.yaml", DESPAIR)
    write("despair.case.yaml", "script: despair.yaml\ncases:\n" + case("a", "{choose: bad}", "{choose: a}"))
    (coverage,) = json.loads(cuebook("test", "despair.case.yaml", "--coverage", "json").stdout)
    missing = {(each["name"], each["arm"]) for each in coverage["missing"]}
    assert missing == {("main/main/mood", "well"), ("interrupt:help/call", "b")}


SIGHS = """\
script: sighs
detectors: [{detector: sighs, rules: [{words: [sigh]}], do: [{say: Oh., id: oh}]}]
phases:
  - phase: p
    topics:
      - topic: t
        actions: [{ask: Town?, id: town, output: [{get: town}]}]
"""


@pytest.mark.parametrize(("said", "acted"), [("Rome", 0), ("a sigh", 1)])
def test_a_detector_that_acts_is_a_branch(cuebook: RunCommand, write: WriteFile, said: str, acted: int) -> None:
    write("sighs.yaml", SIGHS)
    write("sighs.case.yaml", "script: sighs.yaml\ncases:\n" + case("a", f"{{say: {said}}}"))
    (coverage,) = json.loads(cuebook("test", "sighs.case.yaml", "--coverage", "json").stdout)
    assert coverage["branches"] == {"covered": acted, "total": 1, "percent": 100.0 * acted}
    missing = [each["name"] for each in coverage["missing"] if each["kind"] == "branch"]
    assert missing == ["detector:sighs"] * (1 - acted)


WATCHED = """\
script: watched
phases:
  - {phase: p, topics: [{topic: t, actions: [{if: 1 < 2, id: two, then: [{ask: How?, id: how}]}, {form: few, id: f}]}]}
forms: [{form: few, fields: [{field: city, required: true}]}]
detectors:
  - detector: crisis
    rules: [{words: [die], label: grave}, {words: [sad], label: low}]
    do:
      - {if: detected.label == 'grave', id: whether, then: [{emit: {event: call}, id: call}]}
      - {emit: {event: seen}, id: seen, when: detected.label == 'low'}
  - {detector: other, rules: [{words: [bored]}], replace: Well.}
"""


@pytest.mark.parametrize(
    ("turns", "missed"),
    [
        (["ok"], {"crisis (acted)", "whether", "whether (then)", "whether (else)", "call", "seen"}),
        (["I die"], {"whether (else)", "seen", "seen (when held)"}),
        (["so sad"], {"whether (then)", "call", "seen (when did not hold)"}),
        (["so sad", "die"], set()),
    ],
)
def test_a_detector_is_a_branch_with_actions_of_its_own(
    cuebook: RunCommand, write: WriteFile, turns: list[str], missed: set[str]
) -> None:
    write("watched.yaml", WATCHED)
    said = [f"{{say: {each!r}}}" for each in turns]
    write("watched.case.yaml", "script: watched.yaml\ncases:\n" + case("a", *said))
    done = cuebook("test", "watched.case.yaml", "--coverage", "json")
    assert done.exit_code == 0, done.stdout
    (coverage,) = json.loads(done.stdout)
    names = {
        each["name"].split("/")[-1].removeprefix("detector:") + f" ({each['arm']})" * bool(each["arm"])
        for each in coverage["missing"]
        if "detector:" in each["name"]
    }
    without = {"seen (when held)", "seen (when did not hold)"} if turns == ["ok"] else set()
    assert names == missed | without | {"other (acted)"}
    assert not [each for each in coverage["missing"] if each["name"].startswith("p/t/") and each["arm"] == "then"]
