"""The members of the built-in names: what `check` says of each and what happens when a session reads it."""

from functools import lru_cache

import pytest
from msgspec.structs import replace

from runtime.engine.engine import TurnFailed
from runtime.state.program import Program
from scripts.expressions.members import BUILTINS, DETECTED, KINDS
from scripts.model.base import NOWHERE, Template
from scripts.model.script import Script
from scripts.parse.read_script import Source, read_script
from tests.support.runtime_session import NewSession, StartSession

HEAD = """
script: play
roles: [{role: spirit, name: Mimi, tone: playful, attributes: {age: 300}}]
"""
TALK = """
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - {scene: {ai: spirit}, id: opening}
    - {ask: Who is there?, id: who, output: [{get: who}]}
    - {say: 'SOURCE', id: said}
"""
LISTEN = """
phases: [{phase: p, topics: [{topic: t, actions: [{scene: {ai: spirit}, id: a}, {ask: Who?, id: who, output: [who]}]}]}]
detectors: [{detector: d, rules: [{words: [me]}], do: [{say: 'SOURCE', id: said}]}]
"""
OTHERS = ("name", "strftime", "age", "content", "label", "keys", "append", "year", "index", "count")
PARTS = sorted({member for kind in KINDS.values() for member in kind.members} | set(OTHERS))
TEXTS_WITH_ARGUMENTS = {"startswith", "endswith", "count", "find"}
HOLDERS = {
    **dict.fromkeys(BUILTINS | {DETECTED}, "{{ %s }}"),
    "history(9)[0]": "{{ %s }}",
    "history(9)": "{{ %s }}",
    "now.date()": "{{ %s }}",
    "message": "{%% for message in history(9) %%}{{ %s }}{%% endfor %%}",
    "loop": "{%% for message in history(9) %%}{{ %s }}{%% endfor %%}",
    "role.name": "{{ %s }}",
    "range(3)": "{{ %s }}",
}


@lru_cache
def script_of(text: str) -> Script:
    """Read a script once, into which many sources are put."""
    script = read_script(Source(text)).script
    assert script is not None
    return script


def unchecked(text: str, source: str) -> Program:
    """Return the script as `check` would refuse it."""
    script = script_of(text)
    say = Template(source, NOWHERE)
    if script.detectors:
        acting = replace(script.detectors[0], actions=(replace(script.detectors[0].actions[0], texts=(say,)),))
        return Program(replace(script, detectors=(acting,)))
    phase = script.phases[0]
    *before, last = phase.topics[0].actions
    topic = replace(phase.topics[0], actions=(*before, replace(last, texts=(say,))))
    return Program(replace(script, phases=(replace(phase, topics=(topic,)),)))


async def said(prepare, text: str, source: str) -> str | None:
    """Return what a session says, and None where it cannot."""
    session = await prepare(unchecked(text, source)).start()
    try:
        await session.reply("me")
    except TurnFailed:
        return None
    return None if "detector_failed" in {code for code, _ in session.warnings} else "".join(session.said)


async def outcome(prepare, text: str, holder: str, form: str) -> str:
    if await said(prepare, text, HOLDERS[holder] % form) is None:
        return "error"
    shown = await said(prepare, text, HOLDERS[holder] % f"({form}) | default('unset')")
    is_unset = shown and not shown.replace("unset", "") and holder != "vars"  # `check` looks at variables by themselves
    return "warning" if is_unset else "fine"


def verdict(text: str, source: str) -> str:
    problems = read_script(Source(text.replace("SOURCE", source), "t.yaml")).problems
    found = {problem.severity for problem in problems if problem.code == "MEMBER_UNKNOWN"}
    assert {problem.code for problem in problems if problem.severity == "error"} <= {"MEMBER_UNKNOWN"}
    return "error" if "error" in found else "warning" if found else "fine"


@pytest.mark.slow
@pytest.mark.parametrize("holder", sorted(HOLDERS))
async def test_check_and_run_agree_on_every_member(prepare: NewSession, holder) -> None:
    forms = [f"{holder}.{part}" for part in PARTS]
    forms += [f"{holder}.{part}()" for part in PARTS if part not in TEXTS_WITH_ARGUMENTS]
    seen = set()
    text = HEAD + (LISTEN if holder == DETECTED else TALK)
    for form in (holder, *forms):
        reported = verdict(text, HOLDERS[holder] % form)
        assert reported == await outcome(prepare, text, holder, form), form
        seen.add(reported)
        default = f"({form}) | default(1)"
        assert verdict(text, HOLDERS[holder] % default) == await outcome(prepare, text, holder, default), form
    assert "error" in seen


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("{{ role }} is {{ role.name }}, {{ role.tone }}, {{ role.attributes.age }}", "spirit is Mimi, playful, 300"),
        ('{{ role == "spirit" }} {{ role in ["spirit"] }} {{ role.upper() }}', "true true SPIRIT"),
        ('{{ role["name"] }}{{ role.pic }}{{ role.id }}', "Mimispirit"),
    ],
)
async def test_the_role_that_speaks_has_a_name(drive: StartSession, source, shown) -> None:
    session = await drive(HEAD + TALK.replace("SOURCE", source))
    await session.reply("me")
    assert session.said == [shown]


async def test_a_role_nobody_describes_goes_by_its_id(drive: StartSession) -> None:
    session = await drive("- {say: '{{ role }}: {{ role.name }}{{ role.tone }}', role: guide}\n- {set: {it: role}}")
    assert session.said == ["guide: guide"]
    session = await drive("- {set: {it: role}, role: guide}\n- {ask: '{{ it }}', output: [{get: more}]}")
    assert session.said == ["guide"]
    assert type(session.values["it"]) is str


def test_a_loop_may_call_its_item_detected() -> None:
    text = """
script: a
phases:
  - phase: p
    topics:
      - topic: t
        declare: [{var: rows, type: list, value: []}]
        actions:
          - foreach: rows as detected
            id: each
            do: [{say: "{{ detected.kind.name }}", id: told}]
"""
    assert "MEMBER_UNKNOWN" not in {problem.code for problem in read_script(Source(text)).problems}
