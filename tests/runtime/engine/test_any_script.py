"""Whatever the script and the replies: stopping between turns changes nothing, and nothing but a named error leaves."""

import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from api.catalog.catalog import Catalog
from api.replay.recorded_session import ReplaySource as Replayed
from api.replay.recorded_session import find_session
from api.replay.replay_session import replay
from runtime.engine.engine import TurnFailed
from runtime.migration.migration import MOVING, plan, undo
from runtime.models.cassette_file import cassette_text
from runtime.models.offline_model import OfflineModel
from runtime.models.recorded_models import RecordingModel, ScriptedModel
from runtime.state.events import ActionEntered, ActionLeft, ActionSkipped, ScopeEntered, Warned
from runtime.state.inputs import (
    Append,
    ChoiceInput,
    Clear,
    End,
    FormInput,
    GiveBack,
    Input,
    InputRefused,
    Intervention,
    MigrationInput,
    OutsideMessage,
    Pause,
    Reply,
    Resume,
    Rewind,
    SetVariables,
    Speak,
    Start,
    TakeOver,
    TurnInput,
)
from runtime.state.limits import Limits
from runtime.state.ports import Advance, ModelFailed, ModelReply, ModelRequest, OnReply, Usage, Verdict
from runtime.state.program import Program
from runtime.state.recall_types import RecalledUnit, RecallResult, RecallWish
from runtime.state.state import decode, encode
from scripts.checks.abstract_state import VALUE
from scripts.checks.control_flow import ControlFlowGraph
from scripts.checks.effects import Read, Write, effect_of
from scripts.model.actions import Action, Call, walk
from scripts.model.base import without_places
from scripts.model.script import Script, all_actions
from scripts.parse.read_script import Source, read_script
from scripts.versions.breaking_changes import changes
from scripts.yaml.script_writer import native_yaml, simplify
from store.open_store import open_store
from tests.support.api_client import ApiClient
from tests.support.effort import repeats
from tests.support.fixture_types import OpenApp
from tests.support.runtime_session import NewSession, ReadProgram

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
LIMITS = Limits(actions_max=300)  # an endless loop is found sooner

GLOBALS = yaml.safe_dump({"globals": [{"var": "g_text", "value": "global"}, {"var": "g_num", "type": "number"}]})
DECLARED = {
    "num": {"type": "number", "value": 1},
    "text": {"type": "text"},
    "bool": {"type": "boolean", "value": False},
    "date": {"type": "date", "value": "2026-01-31"},
    "pick": {"choices": ["red", "蓝色"]},
    "list": {"type": "list", "value": ["a", 2.5, None]},
    "record": {"type": "record", "value": {"k": [1]}},
    "any": {},
}
NAMES = [f"{layer}_{kind}" for layer in "spt" for kind in DECLARED] + ["g_text", "g_num", "loose", "未知"]
CONDITIONS = [
    "true", "false", "round < 2", "s_num > 1", "p_bool", "not t_any", "loose == 'yes'", "'a' in s_list",
    "s_text and g_text", "未知 != 'x'", "t_num >= p_num", "s_date < today", "1 / 0", "history(2)|length > 1",
    "user.id == 'ana'", "recall('tea') and s_bool", "recall(s_text, k=1)[0].text == 'tea'", "way == 'left'",
]  # fmt: skip
VALUES = {
    "num": ["0", "s_num + 1", "'7'", "history(1)[0].content"],
    "text": ["'{{ s_num }} %}'", "s_text ~ '!'", "''", "'字'"],
    "bool": ["true", "not s_bool", "s_num > 3"],
    "date": ["today", "'2027-02-03'", "none"],
    "pick": ["'red'", "'蓝色'", "none"],
    "list": ["[1, 'b', [2]]", "s_list[:3] + [loose]", "history(2)", "[]", "recall('tea')"],
    "record": ["{'k': {'l': s_num}}", "{}"],
    "any": ["s_num * 1.5", "1e16", "s_any", "{'a': [none, true]}", "-0.0", "s_num * 'x'"],
}
TEXTS = [
    "Hello.", "{{ s_text }}{{ loose }}", "{% for x in s_list %}<{{ x }}>{% endfor %}", "{{ now }} {{ round }}",
    "{{ 未知 }}你好", "{{ history(3)|length }} {{ vars['s_num'] }}", "{{ item }}", " ", "{{ s_record }}",
    "{{ 7 // (s_num - 2) }}", "{{ way }} {{ pace }}", "{{ recall(loose) }}{{ recall('tea', k=1)[0].text }}",
]  # fmt: skip

EXPERIMENTS = [
    {"experiment": "way", "arms": ["left", {"arm": "right", "weight": 2}]},
    {"experiment": "pace", "arms": ["slow", "fast"], "by": "session"},
]
SKILLS = """
- skill: helper
  params: [{var: value, value: 7}, {var: extra, required: false}]
  returns: [kept, loose]
  actions:
  - {say: "{{ value }} {{ extra }} {{ item }} {{ s_num }}"}
  - {repeat: {max: 2}, do: [{ask: "More?", output: [{get: kept}]}, {set: {g_num: 2}}]}
  - {call: asker, output: {loose: answer}, when: "kept != 'no'"}
- skill: asker
  returns: [answer]
  declare: [{var: answer, value: none yet}]
  actions:
  - {choose: answer, choices: [red, blue], max_rounds: 2}
  - {experiment: pace, arms: {slow: [{user_say: "{{ answer }}"}], fast: []}}
"""
ASIDES = """
- {interrupt: price, 'on': [price], do: [{say: "{{ s_text }} {{ t_text }}"}, {set: {s_num: s_num + 1, aside: s_num}}]}
- interrupt: talk
  'on': [talk]
  priority: 1
  do:
  - {ask: "Why?", output: [{get: s_bool}], max_rounds: 2}
  - {repeat: {max: 2}, do: [{call: asker, output: {loose: answer}}]}
- {interrupt: again, 'on': [again], then: restart_topic, when: "hops < 3", do: [{set: {hops: hops + 1}}]}
- {interrupt: leave, 'on': [leave], then: leave_topic, do: [{choose: s_pick, choices: [red, 蓝色]}]}
- interrupt: away
  'on': [away]
  then: goto p0
  when: "hops < 3"
  do: [{set: {hops: hops + 1}}, {user_say: "{{ s_num }}"}]
- {interrupt: pass, 'on': [pass by], then: skip}
- {interrupt: over, 'on': [over], then: end, do: [{emit: {event: over}}, {goto: p0, when: "hops > 90"}]}
- {interrupt: meant, 'on': anything at all, when: "s_num > 5", do: [{scene: {ai: guide}}]}
"""
ROLES = [{"role": "guide", "name": "Ana", "tone": "dry"}, {"role": "pet"}, {"role": "guest", "type": "HUMAN"}]
FORMS = """
- form: many
  title: "{{ s_text }}"
  text: "{{ loose }}Fill this in."
  fields:
  - {field: s_num, type: number, min: 0, required: true, label: "Number {{ s_num }}"}
  - {field: s_pick, choices: [red, 蓝色], invalid: "{{ p_text }}?"}
  - {field: t_bool, type: boolean}
  - {field: p_date, type: date, validate: p_date > '2000-01-01'}
  - {field: s_list, type: multichoice, choices: [a, b], max: 1}
  - {field: rows, type: table, columns: [k, {field: n, type: number, required: true, validate: n > 0}]}
  - {field: scan, type: file, pattern: '\\w+', required: true}
  - {field: s_text, computed: rows ~ s_pick}
  - {field: t_num, type: number, computed: s_num * 2 + (t_text or 1)}
- {form: few, fields: [{field: loose, required: true, default: "0"}, g_num, {field: t_any, computed: loose + 1}]}
"""
CONTEXTS = [
    "buffer", {"strategy": "window", "k": 1}, {"strategy": "token_buffer", "max_tokens": 30},
    {"strategy": "summary", "keep": 1, "instruct": "Keep names."}, {"strategy": "summary_buffer", "max_tokens": 30},
    {"strategy": "lite", "limit": {"messages": 3, "chars": 200}},
    {"strategy": "memo", "limit": {"chars": 100}, "resize": {"every_n_turns": 2}, "memo": {"instruct": ["A", "B"]}},
]  # fmt: skip
REPAIRS = ["repeat", "skip", "cancel", "correct", "hand_over"]
DETECTORS = """
- detector: words
  define: a word that matters
  "on": both
  cooldown: 1
  rules: [{words: ["yes", 嗯, "28"], label: heard, score: 0.8}, {words: ["no"], label: grave}]
  do:
  - {set: {s_any: "detected.words", g_text: "detected.message"}}
  - {if: "detected.label == 'grave'", then: [{emit: {event: seen, data: {n: s_num}}}, {set: {s_num: "'x'"}}]}
  - {experiment: way, arms: {left: [{say: "{{ detected.label }} {{ t_any }}"}], right: [{emit: right}]}}
- detector: mood
  define: how they feel
  on_failure: use_previous
  measures: [{measure: valence, lexicon: valence}]
  patterns: [{pattern: shift, all: [{of: valence, span: 2, change: 0.1}]}]
  replace: "{{ detected.now.valence }}"
- {detector: last, "on": assistant, rules: [{words: [Hello]}], replace: Hi., do: [{end: over, when: "s_num > 3"}]}
"""
ON_BUDGET = """
- {say: "{{ s_num }}, not now.", id: not_now}
- {if: "s_bool", then: [{emit: used_up, id: told}], id: whether}
- {show: {image: "{{ g_text }}"}, when: s_num > 1, id: picture}
"""
parameters = st.fixed_dictionaries({}, optional={"value": st.just("s_num"), "extra": st.just("item")})
returned = st.sampled_from([{}, {"loose": "loose"}])
answered = st.sampled_from([{}, {"loose": "answer"}])
names = st.sampled_from(NAMES)
texts = st.sampled_from(TEXTS)
conditions = st.sampled_from(CONDITIONS)
rounds = st.integers(0, 3)


def maybe(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw any of these keys, or none."""
    return st.fixed_dictionaries({}, optional=keys)


def seldom(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw these keys one time in four."""
    return st.integers(0, 3).flatmap(lambda drawn: st.fixed_dictionaries(keys if drawn == 3 else {}))


def kind_of(name: str) -> str:
    kind = name.partition("_")[2]
    return kind if kind in DECLARED else "any"


@st.composite
def outputs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return what a question takes: values of every type, at every level, some of them computed."""
    found: list[dict[str, Any]] = []
    for name in draw(st.lists(names, max_size=3, unique=True)):
        kind = kind_of(name)
        if kind == "list" and not any("tolist" in item for item in found) and draw(st.booleans()):
            found.append({"tolist": name, "fields": [{"get": "k"}, {"get": "n", "type": "number"}]})
            continue
        if draw(st.integers(0, 5)) == 0:
            found.append({"set": name, "value": draw(st.sampled_from(VALUES[kind])), **draw(maybe(when=conditions))})
            continue
        shape = {"choices": DECLARED["pick"]["choices"]} if kind == "pick" else {"type": kind} if kind != "any" else {}
        extra = draw(
            maybe(
                required=st.booleans(),
                fallback=st.just("raw"),
                invalid=texts,
                validate=st.sampled_from([f"{name} != 'no'", "round > 1", "s_num"]),
                pattern=st.just(r"\w+") if kind in {"text", "any"} else st.nothing(),
                min=st.integers(0, 2) if kind == "num" else st.nothing(),
            )
        )
        found.append({"get": name, **({"type": "number"} if kind == "num" else shape), **extra} | TYPES.get(kind, {}))
    return found


TYPES = {"bool": {"type": "boolean"}, "num": {"type": "number"}}


def asking(targets: tuple[str, ...]) -> dict[str, st.SearchStrategy[Any]]:
    goto = st.sampled_from(targets).map(lambda target: {"goto": target})
    return {
        "output": outputs(),
        "max_rounds": rounds,
        "invalid": texts,
        "on_fail": st.sampled_from(["default", "skip", "end"]) | goto | st.builds(failing, texts, goto),
        "if_known": st.sampled_from(["ask", "skip", {"confirm": "{{ s_any }}?"}]),
    }


def failing(text: str, goto: Any) -> dict[str, Any]:
    """Return an `on_fail` that says and does something before it jumps, at most a few times."""
    return {"say": text, "do": [{"set": {"hops": "hops + 1"}}, {"end": "enough", "when": "hops > 3"}], "then": goto}


@st.composite
def policy(draw: st.DrawFn, targets: tuple[str, ...]) -> Any:
    """Return what follows when replies lead nowhere."""
    then = draw(st.sampled_from(["continue", "skip", "end", *({"goto": target} for target in targets)]))
    return draw(st.sampled_from([then, {"then": then, "after": 2}, {"say": draw(texts), "then": then}]))


def led(targets: tuple[str, ...]) -> dict[str, st.SearchStrategy[Any]]:
    return {"on_blocked": policy(targets), "on_off_topic": policy(targets)}


def keyed(verb: str, value: st.SearchStrategy[Any], **keys: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Return one action, as the list that stands for it."""
    return st.tuples(value, maybe(**keys), seldom(when=conditions, role=st.just("guide"))).map(
        lambda drawn: [{verb: drawn[0], **drawn[1], **drawn[2]}]
    )


def assigned(name: str) -> st.SearchStrategy[dict[str, str]]:
    return st.sampled_from(VALUES[kind_of(name)]).map(lambda value: {name: value})


def hop(target: str) -> list[Any]:
    """Return a jump that is taken a few times only."""
    return [{"set": {"hops": "hops + 1"}}, {"goto": target, "when": "hops < 4"}]


@st.composite
def shown_forms(draw: st.DrawFn) -> list[Any]:
    policy = st.sampled_from(["default", "skip", "end"])
    return draw(keyed("form", st.sampled_from(["many", "few"]), max_rounds=rounds, invalid=texts, on_fail=policy))


@cache  # a strategy is validated once, and this one is large
def actions(targets: tuple[str, ...], depth: int = 2) -> st.SearchStrategy[list[Any]]:
    """Return a list of actions of every type."""
    criteria = maybe(
        min_rounds=rounds,
        understanding_threshold=st.just(50),
        custom_conditions=st.just([{"variable": "s_num", "operator": ">", "value": 1}]),
    )
    kinds = [
        keyed(
            "say",
            texts | st.lists(texts, min_size=2, max_size=3),
            acknowledge=st.sampled_from([True, "Go on, {{ s_any }}"]),
        ),
        keyed("ai_say", texts, max_rounds=rounds, require_acknowledgment=st.booleans(), exit_criteria=criteria),
        keyed("ask", texts, **asking(targets)),
        keyed(
            "ai_ask", texts, exit_when=conditions, exit_criteria=criteria, exit=texts, **asking(targets), **led(targets)
        ),
        keyed("ai_think", texts, output=outputs()),
        keyed("set", names.flatmap(assigned)),
        keyed("user_say", texts),
        keyed("emit", st.just({"event": "told", "data": {"n": "s_num", "t": "未知"}})),
        keyed("remember", texts, about=texts, pinned=st.booleans(), metadata=st.just({"n": "{{ s_num }}", "t": "字"})),
        keyed("recall", texts, into=names, k=st.integers(1, 3)).map(lambda made: [{"into": "loose", **made[0]}]),
        keyed("call", st.just("helper"), input=parameters, output=returned, foreach=st.just("s_list as item")),
        keyed("call", st.just("asker"), output=answered, foreach=st.just("[{'k': 1}, {'k': s_num}] as item")),
        *[shown_forms()] * 3,
        keyed(
            "chat",
            texts,
            exit_when=conditions,
            max_rounds=st.integers(1, 3),
            exit_criteria=criteria,
            **led(targets),
        ),
        keyed("experiment", st.sampled_from(["way", "pace"])),
        keyed("scene", st.sampled_from([{"ai": "guide"}, {"ai": "pet", "human": "guest"}])),
        keyed("show", st.fixed_dictionaries({"image": texts}, optional={"caption": texts})),
        st.sampled_from(targets).map(hop),
        st.just([{"end": "over", "when": "s_num > 2 and round == 0"}]),
        keyed("choose", st.sampled_from(["s_any", "t_any", "loose", "s_pick"]), choices=st.just(["red", "蓝色"])).map(
            lambda made: [{"choices": ["red", "蓝色"], **made[0]}]
        ),
    ]
    kinds += kinds[2:4] * 2  # what waits for an answer is what can go wrong
    if depth:
        inner = actions(targets, depth - 1)
        some = inner.map(lambda found: found or [{"set": {"loose": "round"}}])
        choice = st.fixed_dictionaries(
            {"key": st.just("red"), "text": texts, "actions": inner},
            optional={"once": st.booleans(), "when": conditions},
        )
        kinds += [
            st.tuples(conditions, inner, inner).map(lambda it: [{"if": it[0], "then": it[1], "else": it[2]}]),
            st.tuples(st.sampled_from(["s_list", "[1, 'b']", "未知"]), some).map(
                lambda it: [{"foreach": f"{it[0]} as item", "do": it[1]}]
            ),
            st.tuples(maybe(until=conditions), st.integers(1, 3), some).map(
                lambda it: [{"repeat": {**it[0], "max": it[1]}, "do": it[2]}]
            ),
            st.tuples(inner, inner).map(lambda it: [{"experiment": "way", "arms": {"left": it[0], "right": it[1]}}]),
            choice.map(lambda it: [{"choose": "s_pick", "question": "Which?", "choices": [it, {"蓝色": "Blue"}]}]),
        ]
    return st.lists(st.one_of(kinds), min_size=4 if depth == 2 else 0, max_size=6 if depth == 2 else 2).map(
        lambda parts: [action for part in parts for action in part]
    )


@cache
def actions_key(targets: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    return actions(targets).map(lambda found: {"actions": found})


def declared(layer: str) -> list[dict[str, Any]]:
    return [{"var": f"{layer}_{kind}", **more} for kind, more in DECLARED.items()]


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """Return the YAML of a script that has no errors."""
    sizes = draw(st.lists(st.integers(1, 2), min_size=1, max_size=3))
    targets = (*(f"p{p}/t{t}" for p, size in enumerate(sizes) for t in range(size)), "p0")
    phases = [
        {
            "phase": f"p{p}",
            "declare": declared("p"),
            **draw(seldom(when=conditions)),
            "topics": [
                {
                    "topic": f"t{t}",
                    "declare": declared("t") if draw(st.booleans()) else [],
                    **draw(seldom(when=conditions)),
                    **draw(st.just({"actions": []}) if draw(st.integers(0, 9)) == 9 else actions_key(targets)),
                }
                for t in range(size)
            ],
        }
        for p, size in enumerate(sizes)
    ]
    asides = draw(seldom(interrupts=st.just(yaml.safe_load(ASIDES))))
    asides |= draw(seldom(on_budget=st.just(yaml.safe_load(ON_BUDGET))))
    asides |= draw(seldom(context=st.sampled_from(CONTEXTS)))
    asides |= draw(seldom(memory=st.sampled_from([{"recall": "always", "k": 2}, {"remember": "notes"}])))
    asides |= draw(seldom(repairs=st.lists(st.sampled_from(REPAIRS), min_size=1, unique=True)))
    auto = draw(st.booleans())
    session = [{**each, "auto": auto} if each["var"] in {"s_text", "s_num"} else each for each in declared("s")]
    session = [*session, {"var": "hops", "value": 0, "type": "number"}]
    head = {"script": "any", "use": ["globals.yaml"], "default_scope": draw(st.sampled_from(["topic", "session"]))}
    watching = [each for each in yaml.safe_load(DETECTORS) if draw(st.booleans())]
    shared = {"skills": yaml.safe_load(SKILLS), "roles": ROLES, "detectors": watching, "forms": yaml.safe_load(FORMS)}
    shared["experiments"] = EXPERIMENTS
    whole = {**head, "declare": session, "phases": phases, **shared, **asides}
    return yaml.safe_dump(whole, allow_unicode=True, sort_keys=False)


replies = st.one_of(
    st.sampled_from(
        [
            "28",
            "yes",
            "no",
            "red",
            "蓝色",
            "1",
            "2026-02-03",
            "a, b",
            "s_num: 5, s_text: {{ x }}",
            "",
            "  ",
            '{"k": 1}',
            "嗯",
            "price",
            "let us talk",
            "again",
            "leave",
            "away",
            "pass by",
            "over",
            "repeat",
            "skip",
            "cancel",
            "human",
            "correction",
            "actually, s_num: 7",
            "change s_pick to red",
            "k: a, n: 3",
            "number 1: 3, rows: a, 2; b, 0",
            "s_pick: red\ns_list: a and b\nscan: x.pdf",
            "我很开心",
            "so sad",
        ]
    ),
    st.text(max_size=30),
    st.text("{}%#$ sx_1", max_size=20),
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | replies,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.sampled_from(["k", "n", "o"]), parts, max_size=3),
    max_leaves=5,
)
entries = {
    "s_num": st.sampled_from([0, "7", -1]),
    "s_pick": st.sampled_from(["red", "RED", "", "green"]),
    "t_bool": st.booleans(),
    "p_date": st.sampled_from(["2026-01-01", "1999-01-01", "soon"]),
    "s_list": st.sampled_from([["a"], "b", ["a", "b"], []]),
    "rows": st.sampled_from([[{"k": "x", "n": 1}], [{}], [{"n": "0"}], [{"k": "x"}]]),
    "scan": st.sampled_from(["a", "a.pdf"]),
    "loose": st.sampled_from(["x", None, 3]),
    "g_num": st.sampled_from(["1", "x"]),
    "t_num": st.just(1),
}
filled = st.dictionaries(st.sampled_from([*entries, "oops"]), junk, max_size=2) | st.fixed_dictionaries(
    {}, optional=entries
)
inputs = st.lists(replies | st.integers(0, 1) | filled | filled, min_size=5, max_size=12)
values = st.sampled_from([1, -0.0, "x", "7", None, [1, {"k": "字"}], "2026-02-03", "red"])
interventions = st.one_of(
    st.tuples(st.sampled_from(["pause", "resume", "resume", "resume", "clear", "end", "take", "give"])),
    st.tuples(st.just("rewind"), st.integers(0, 12)),
    st.tuples(st.just("rewind"), st.integers(0, 12)),
    st.tuples(st.just("set"), st.dictionaries(names, values, min_size=1, max_size=3), st.sampled_from(["topic", None])),
    st.tuples(st.just("append"), st.sampled_from(["user", "assistant", "system", "tool"]), replies),
)
doings = st.lists(replies | st.integers(0, 1) | filled | filled | interventions, min_size=5, max_size=12)


def intervention_of(session: Any, drawn: tuple[Any, ...]) -> Intervention:
    """Return what is drawn, for a session as it is."""
    match drawn:
        case ["rewind", turn] if session.turns:
            return Rewind(session.turns[turn % len(session.turns)].state)
        case ["set", given, scope]:
            return SetVariables(given, scope)
        case ["append", role, text]:
            is_person = session.state.operator and role == "assistant"
            return (
                Speak("Kim", text)
                if is_person
                else Append((OutsideMessage(role, text), OutsideMessage("assistant", "added")))
            )
        case ["end"]:
            return End("drawn")
        case ["clear"]:
            return Clear()
        case ["take"]:
            return TakeOver("Kim")
        case ["give"]:
            return GiveBack()
        case ["pause"]:
            return Pause()
        case _:
            return Resume()


class Unsteady(OfflineModel):
    """Fails the first time it is asked something, and answers the second time; detectors do without it."""

    def __init__(self) -> None:
        self._asked: set[tuple[str, str, int, int]] = set()

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        asked = (request.purpose, request.action_id, request.round, len(request.history))
        may_fail = {"detect", "summarise", "memo"} | (set() if request.task else {"extract"})
        is_needed = request.purpose not in may_fail
        if asked not in self._asked and is_needed:
            self._asked.add(asked)
            raise ModelFailed("overloaded")
        return await super().complete(request)


class Remembers:
    """A memory that knows little, and the same every time."""

    async def recall(self, wish: RecallWish) -> RecallResult:
        if len(wish.query) % 3 == 0:
            return RecallResult()
        texts = ["tea", f"about {wish.query}", "{{ s_text }}"][: wish.k]
        return RecallResult(units=tuple(RecalledUnit(unit_id=each, text=each, created_at=NOON) for each in texts))


async def lived(session: Any, given_inputs: list[Any]) -> list[Any]:
    """Return what each input came to: the events of its turn, or the error that refused it and changed nothing."""
    return [await lived_on(session, said) for said in [None, *given_inputs]]


async def lived_on(session: Any, said: Any) -> Any:
    """Return what one input came to; None is the start."""
    given_input: Input | Intervention = Start() if said is None else Reply(str(said))
    wait = session.state.wait
    if isinstance(said, dict) and wait is not None and wait.form is not None:
        known = {field.name for field in wait.form.fields if not field.computed}
        given_input = FormInput({name: value for name, value in said.items() if name in known or len(said) == 1})
    if isinstance(said, int) and wait is not None and wait.kind == "choice":
        given_input = ChoiceInput(wait.choices[said % len(wait.choices)].key)
    if isinstance(said, tuple):
        given_input = intervention_of(session, said)
    return await outcome(session, given_input)


async def outcome(session: Any, given_input: TurnInput) -> Any:
    for _ in range(100):
        before = encode(session.state)
        try:
            return (await session.turn(given_input)).events
        except (TurnFailed, InputRefused) as error:
            assert encode(session.state) == before
            failed = isinstance(error, TurnFailed)
            if not (failed and error.kind == "model"):
                return type(error).__name__, str(error), error.place if failed else None
    return "the model failed a hundred times"


def was_taken(send_input: Any) -> bool:
    """Return whether an outcome is the events of a turn, and no error."""
    return not any(isinstance(each, str) for each in send_input[:1])


@pytest.mark.gate
@pytest.mark.timeout(600)  # shrinking a failure takes its time
@settings(max_examples=repeats(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(script=scripts(), said=doings, seed=st.integers(0, 9))
async def test_any_session(
    program_of: ReadProgram, prepare: NewSession, script: str, said: list[Any], seed: int
) -> None:
    reading = read_script(Source(script, "any.yaml", {"globals.yaml": GLOBALS}))
    assert reading.script is not None, [str(problem) for problem in reading.errors]
    program = program_of(script, GLOBALS)

    straight = prepare(program, seed=seed, limits=LIMITS, memory=Remembers())
    account = await lived(straight, said)
    event(f"{straight.state.status} after {min(len(straight.turns), 4)} turns")
    for saved in (True, False):
        again = prepare(program, seed=seed, limits=LIMITS, saved=saved, memory=Remembers())
        assert await lived(again, said) == account
        assert again.state == straight.state

    unsteady = prepare(program, seed=seed, limits=LIMITS, memory=Remembers())
    unsteady.model = Unsteady()
    assert await lived(unsteady, said) == account
    assert unsteady.state == straight.state

    numbers = [each.seq for turn in straight.turns for each in turn.events]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [message.number for message in straight.messages] == list(range(1, len(straight.messages) + 1))
    assert decode(encode(straight.state)) == straight.state
    if straight.state.status == "completed":
        assert (straight.state.topic_cells, straight.state.phase_cells, straight.state.frames) == ({}, {}, [])


@pytest.mark.gate
@pytest.mark.timeout(600)
@settings(max_examples=repeats(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(script=scripts(), said=inputs, wordy=st.booleans())
async def test_a_recorded_model_replayed_gives_the_same_session(
    program_of: ReadProgram, prepare: NewSession, script: str, said: list[str | int], wordy: bool
) -> None:
    program = program_of(script, GLOBALS)
    recorded = prepare(program, limits=LIMITS, memory=Remembers())
    recorded.model = RecordingModel(Wordy() if wordy else Unsteady())
    account = await lived(recorded, said)
    # An input that was refused left nothing behind, and what the model said to it gave way to what it said next.
    taken = [(each, send_input) for each, send_input in zip(said, account[1:], strict=True) if was_taken(send_input)]
    said, account = [each for each, _ in taken], [account[0], *(send_input for _, send_input in taken)]
    if not was_taken(account[0]):
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / "cassette.yaml"
        file.write_text(cassette_text(recorded.model.replies), "utf-8")
        replayed = prepare(program, limits=LIMITS, saved=True, memory=Remembers())
        replayed.model = ScriptedModel.from_file(file)
    event(f"{len(recorded.model.replies)} actions asked it")
    assert await lived(replayed, said) == account
    if not wordy:
        replayed.state.spent = recorded.state.spent  # the unsteady model costs nothing, what plays its file does
    assert replayed.state == recorded.state
    assert calls_of(replayed) == calls_of(recorded)


def calls_of(session: Any) -> list[tuple[ModelRequest, ModelReply | None, str, Usage | None]]:
    """Return the calls of the turns that were taken, with their outcome but without the model's exact words."""
    made = [call for turn in session.turns for call in turn.model_calls]
    return [
        (
            call.request,
            call.reply and replace(call.reply, raw=""),
            call.ended.error if call.ended else "",
            call.ended.usage if call.ended else None,
        )
        for call in made
    ]


class Paid(OfflineModel):
    """The offline model, as if every call of it cost something."""

    def goes_to(self, request: ModelRequest) -> str:
        return "paid"


class Meter:
    """Lets no call pass at certain tries."""

    def __init__(self, refused: set[int]) -> None:
        self._refused = refused
        self._tries = 0

    def exhausted_budget(self) -> str | None:
        self._tries += 1
        return "day_calls" if self._tries in self._refused else None

    def count(self, usage: Usage | None) -> None:
        pass


def place_of(session: Any) -> Any:
    """Return where a session is and what it knows, but for what tells of the turns and calls it took."""
    state = session.state
    cells = [
        {name: cell.value for name, cell in layer.items()}
        for layer in (state.session_cells, state.phase_cells, state.topic_cells, state.global_cells)
    ]
    places = [(each.action, each.block, each.arm, each.passes, each.items, sorted(each.cells)) for each in state.frames]
    progress = state.progress and (state.progress.round, state.progress.values, state.progress.replies)
    return state.status, state.phase, state.topic, places, progress, cells, state.wait, state.end_reason, state.draws


async def paid(session: Any, given_inputs: list[Any]) -> list[Any]:
    """Say everything until it is taken; after each input where the session is, or None once a turn has failed."""
    found = []
    for said in [None, *given_inputs]:
        saying = said
        for _ in range(30):
            send_input = await lived_on(session, saying)
            if not was_taken(send_input):
                return [*found, None]
            if not any(isinstance(each.body, Warned) and each.body.code == "budget_exceeded" for each in send_input):
                break
            wait = session.state.wait
            assert wait is not None
            saying = "" if wait.begins else said
        found.append(place_of(session))
    return found


@pytest.mark.gate
@pytest.mark.timeout(600)
@settings(max_examples=repeats(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(script=scripts(), said=inputs, refused=st.sets(st.integers(1, 25), max_size=12))
async def test_used_up_budget_costs_a_session_nothing_anywhere(
    program_of: ReadProgram, prepare: NewSession, script: str, said: list[Any], refused: set[int]
) -> None:
    """But words: what tells how often something was said is left out here, and what goes on without the model."""
    for telling, instead in TELLING_TIME.items():
        script = script.replace(telling, instead)
    whole = yaml.safe_load(script) | {"detectors": []}
    whole["declare"] = [{key: each[key] for key in each if key != "auto"} for each in whole["declare"]]
    program = program_of(yaml.safe_dump(whole, allow_unicode=True, sort_keys=False), GLOBALS)
    free = prepare(program, limits=LIMITS)
    free.model = Paid()
    expected = await paid(free, said)
    accounts = []
    for saved in (True, False):
        broke = prepare(program, limits=LIMITS, saved=saved)
        broke.model, broke.meter = Paid(), Meter(refused)
        for want, got in zip(expected, await paid(broke, said), strict=False):
            if want is None or got is None:
                break
            assert got == want
        numbers = [each.seq for turn in broke.turns for each in turn.events]
        assert numbers == list(range(1, len(numbers) + 1))
        assert [message.number for message in broke.messages] == list(range(1, len(broke.messages) + 1))
        assert decode(encode(broke.state)) == broke.state
        accounts.append([turn.events for turn in broke.turns])
    event(f"{len(broke.turns) - len(free.turns)} more turns")
    assert accounts[0] == accounts[1]


TELLING_TIME = {
    "history(1)[0].content": "s_text",
    "history(2)|length > 1": "s_num > 2",
    "history(2)": "[]",
    "{{ history(3)|length }}": "",
}


class Wordy(OfflineModel):
    """Says something else in every call, with everything a reply can hold."""

    def __init__(self) -> None:
        self._calls = 0

    def goes_to(self, request: ModelRequest) -> str:
        return "wordy"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self._calls += 1
        offline = await super().complete(request)
        usage = USED[self._calls % len(USED)]
        if self._calls % 7 == 6:
            raise ModelFailed(f"lost: call {self._calls}", retryable=False, usage=usage)
        if request.purpose == "detect":
            seen = [name for at, name in enumerate(request.detectors) if (at + self._calls) % 2]
            verdicts = {name: Verdict(self._calls % 5 / 5 + 0.1, SAID[self._calls % len(SAID)]) for name in seen}
            return ModelReply(detected=verdicts, usage=usage)
        return ModelReply(
            text=f"{offline.text}{SAID[self._calls % len(SAID)]}",
            values={**offline.values, "loose": TAKEN[self._calls % len(TAKEN)], "s_num": self._calls},
            reasons={"未知": "not: said"},
            exit=[None, False, True][self._calls % 3],
            exit_reason="enough\n",
            understanding=self._calls * 10 % 101,
            has_questions=self._calls % 2 == 0,
            progress=[None, *get_args(Advance)][self._calls % 5],
            intent=next(iter(request.intents), "") if self._calls % 3 else "",
            usage=usage,
            raw=f"call {self._calls}",
        )


SAID = ["", " yes", "\n- a: 'b'\n\n", "1e5", "\u2028\x85\t\x07", "null", "# 字 {{ x }}", "0o17 ", '"', "~"]
USED = [
    None,
    Usage(model="tea-1"),
    Usage(
        model="tea-2: large",
        prompt_digest="1e5" * 21,
        parameters={"temperature": 0.5, "stop": ["\n"], "format": {"type": "json"}},
        input_tokens=812,
        cached_tokens=512,
        output_tokens=64,
        counted=False,
        cost=0.00123,
        latency_ms=840,
        first_words_ms=0,
        attempts=3,
        failures=("429", "cut off: no end"),
        degraded="no JSON",
    ),
]
TAKEN = [1e16, -0.0, "", "1_000", [1, [], {"a: b": None}], {"k": True}, "2026-01-31", "on", 0.1]


@pytest.mark.gate
@pytest.mark.timeout(600)
@settings(max_examples=repeats(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(script=scripts(), said=doings, also_said=doings, which=st.integers(0, 2))
async def test_any_recorded_session_comes_out_again_as_it_was(
    app: OpenApp, script: str, said: list[Any], also_said: list[Any], which: int
) -> None:
    """Two sessions of one user go on in turn, and change the variables that both have."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        async with app(folder, [OfflineModel, Unsteady, Wordy][which](), scripts=folder) as api:
            await api.publish_script(script, strict=False, files={"globals.yaml": GLOBALS})
            sessions = [await begun(api) for _ in range(2)]
            for inputs_now in itertools.zip_longest(said, also_said):
                for at, each in enumerate(inputs_now):
                    sessions[at] = await send_input(api, sessions[at], each)
        record = open_store(folder, read_only=True)
        try:
            source = Replayed(record, Catalog(record, lambda: NOON), LIMITS)
            for row in (await record.sessions.page("default")).rows:
                session = await find_session(source, "default", row.session_id)
                turns = [turn async for turn in replay(session)]
                event(f"{min(len(turns), 4)} turns")
                assert len(turns) == session.head.turn + 1
                assert {turn.outcome for turn in turns} <= {"same", "passed over"}, turns[-1]
        finally:
            await record.close()


async def begun(api: ApiClient) -> Any:
    """Return a session, also one that cannot begin yet."""
    body = {"userId": "ana", "scriptId": "any", "initialVariables": {"s_text": "a", "g_num": "2"}}
    answer = (await api.post("/api/sessions", json=body)).json()
    return answer if "sessionId" in answer else answer["error"]["context"]


async def send_input(api: ApiClient, session: Any, said: Any) -> Any:
    """Return a session after a message (sent again where the model failed) or an intervention; unchanged if refused."""
    if isinstance(said, tuple):
        return await intervened(api, session, said)
    wait = session.get("wait") or {}
    message: dict[str, Any] = {"content": str(said)}
    if isinstance(said, dict) and wait.get("form"):
        message = {"form": said}
    if isinstance(said, int) and wait.get("kind") == "choice":
        message = {"choice": wait["choices"][said % len(wait["choices"])]["key"]}
    for _ in range(20):
        path = f"/api/sessions/{session['sessionId']}/messages"
        answer = await api.post(path, content=msgspec.json.encode(message))
        if answer.status_code == 200:
            return {**answer.json(), "sessionId": session["sessionId"]}
        if answer.status_code != 503:
            break
    return session


async def intervened(api: ApiClient, session: Any, drawn: tuple[Any, ...]) -> Any:
    method, path, body = "POST", f"/{drawn[0]}", None
    match drawn:
        case ["rewind", turn]:
            body = {"turn": turn}
        case ["set", given, scope]:
            method, path, body = "PATCH", "/variables", {"variables": given, "scope": scope}
        case ["append", role, text]:
            path, body = "/messages/append", {"messages": [{"role": role, "content": text}] * 2}
    answer = await api.request(method, f"/api/sessions/{session['sessionId']}{path}", json=body)
    assert answer.status_code < 500, answer.text
    return answer.json() if answer.status_code == 200 else session


WAITING = {"ask", "ai_ask", "choose", "user_say", "call", "key", "get"}


@st.composite
def robbed(draw: st.DrawFn, script: str) -> str:
    """Return the script without some of its actions and choices, and with one thing called otherwise."""
    whole = yaml.safe_load(script)
    asking = [
        (each, item)
        for each in _lists(whole["phases"])
        for item in each
        if isinstance(item, dict) and WAITING & {*item}
    ]
    for each, item in draw(st.lists(st.sampled_from(asking), max_size=3, unique_by=id)) if asking else []:
        each[:] = [other for other in each if other is not item]
    if draw(st.integers(0, 3)) == 3:
        phase = draw(st.sampled_from(whole["phases"]))
        node, kind = draw(st.sampled_from([(phase, "phase"), *((topic, "topic") for topic in phase["topics"])]))
        node[kind] = "renamed"
    return yaml.safe_dump(whole, allow_unicode=True, sort_keys=False)


def _lists(node: Any) -> list[list[Any]]:
    """Return the lists of actions, choices and outputs below a node."""
    found = []
    for key, part in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key in {"actions", "then", "else", "do", "left", "right", "choices", "output"} and isinstance(part, list):
            found.append(part)
        found += _lists(part)
    return found


@pytest.mark.gate
@pytest.mark.timeout(600)
@settings(max_examples=repeats(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), script=scripts(), said=st.lists(replies | st.integers(0, 1), max_size=3), more=inputs)
async def test_any_session_migrates_or_is_refused_with_a_reason(
    program_of: ReadProgram, prepare: NewSession, data: st.DataObject, script: str, said: Any, more: Any
) -> None:
    assume(read_script(Source(script, "any.yaml", {"globals.yaml": GLOBALS})).script is not None)
    program = program_of(script, GLOBALS)
    straight, moving = prepare(program, limits=LIMITS), prepare(program, limits=LIMITS)
    assert await lived(straight, said) == await lived(moving, said)

    before = encode(moving.state)
    same = plan(program, program_of(script, GLOBALS), moving.state, NOON)
    assert (same.verdict, encode(same.state)) == ("safe" if moving.state.status == "active" else "ended", before)
    moving.program = program_of(script, GLOBALS)
    assert [await outcome(moving, Reply(str(each))) for each in more] == [
        await outcome(straight, Reply(str(each))) for each in more
    ]

    reading = read_script(Source(data.draw(robbed(script)), "any.yaml", {"globals.yaml": GLOBALS}))
    if reading.script is None:
        return
    new, retained = Program(reading.script), straight.state
    changes(program.script, new.script)
    planned = plan(program, new, retained, NOON)
    event(planned.verdict)
    assert encode(retained) == encode(moving.state)
    if planned.verdict not in MOVING:
        return
    moving.program, moving.state = new, planned.state
    send_input = await outcome(moving, MigrationInput(planned.account, planned.restart))
    if moving.state is planned.state:
        assert send_input[0] == "TurnFailed"
        return
    assert decode(encode(moving.state)) == moving.state
    back = undo(moving.state, retained)
    moving.program, moving.state = program, back.state
    await moving.turn(MigrationInput(back.account))
    there, again = decode(encode(moving.state)), decode(encode(retained))
    there.turn, there.event_seq, there.message_seq = again.turn, again.event_seq, again.message_seq
    # these follow the conversation, in which what the move had said stays
    there.context, there.condensed = again.context, again.condensed
    assert encode(there) == encode(retained)
    numbers = [each.seq for turn in moving.turns for each in turn.events]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.gate
@settings(max_examples=repeats(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(script=scripts())
def test_any_script_written_out_reads_as_the_same(script: str) -> None:
    files = {"globals.yaml": GLOBALS}
    reading = read_script(Source(script, "any.yaml", files))
    assert reading.script is not None
    again = read_script(Source(native_yaml(reading.script), "any.yaml", files))
    assert again.script is not None, again.errors
    assert again.script == read_script(Source(native_yaml(again.script), "any.yaml", files)).script
    assert comparable(again.script) == comparable(reading.script)


def comparable(script: Script) -> Script:
    """Return a simplified script without its places and format; `native_yaml` simplifies what it writes."""
    return replace(without_places(simplify(script)), form="native")


TELLING = {"VARIABLE_MAYBE_UNSET", "VARIABLE_NEVER_SET", "VARIABLE_UNDECLARED", "CROSS_TOPIC_READ"}
NOT_FORESEEN = {"value_missing", "repeat_limit"}  # out of rounds, and a `repeat` whose `until` never held
# what an application hands in
GIVEN = {"s_text": "a", "s_pick": "red", "s_any": 1, "g_num": 2, "way": "left", "pace": "slow"}
UNSET_NAME = re.compile(r"`([^`]+)` has no value")


class WithoutAliases(yaml.SafeDumper):
    """Writes every part where it stands, so that each has a place of its own."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def unset_reads(session: Any) -> Iterator[tuple[str, str, Action]]:
    """Return every read that found nothing, as place, name and action, up to what no check foresees."""
    phase = topic = skill = ""
    within = 0  # how many actions of a detector are under way
    for each in (event_.body for turn in session.turns for event_ in turn.events):
        if isinstance(each, ScopeEntered):
            phase, topic = (each.id, "") if each.scope == "phase" else (phase, each.id)
        elif isinstance(each, ActionEntered | ActionLeft | ActionSkipped) and each.detector:
            within += isinstance(each, ActionEntered) - isinstance(each, ActionLeft)
        elif isinstance(each, ActionEntered | ActionLeft | ActionSkipped):
            skill = each.skill
        elif isinstance(each, Warned) and each.code in NOT_FORESEEN:
            return
        elif isinstance(each, Warned) and each.code == "undefined_variable" and each.action_id and not within:
            owner = session.program.skills[skill] if skill else session.program.topics[phase, topic]
            action = next((found for found in walk(owner.actions) if found.id == each.action_id), None)
            if action is not None and (named := UNSET_NAME.match(each.message)):
                yield skill or f"{phase}/{topic}", named[1], action


def is_only_used(action: Action, name: str) -> bool:
    """Return whether an action wants the value of a name, and never just asks for it in a condition."""
    effect = effect_of(action)
    wanted = [step.source for step in effect.steps if isinstance(step, Read) and not step.is_condition]
    asked = [step.source for step in effect.steps if isinstance(step, Read) and step.is_condition]
    asked += [each for each in (action.when, getattr(effect.body, "until", None)) if each is not None]
    for step in effect.steps:
        if isinstance(step, Write):
            wanted += [step.value] if step.value is not None else []
            asked += [step.when] if step.when is not None else []
    roles = {read.role for source in wanted for read in source.compiled.facts.reads if read.name == name}
    return bool(roles) and "tested" not in roles and not any(name in source.compiled.facts.names for source in asked)


def is_passed(script: Script, skill: str, name: str) -> bool:
    """Return whether every call of a skill passes a parameter: that the value may be unset is a problem of the call."""
    calls = [each for each in all_actions(script) if isinstance(each, Call) and each.skill == skill]
    return bool(calls) and all(name in each.input for each in calls)


@pytest.mark.gate
@pytest.mark.timeout(600)  # shrinking a failure takes its time
@settings(max_examples=repeats(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(script=scripts(), said=inputs, seed=st.integers(0, 9))
async def test_a_read_that_finds_nothing_was_foreseen(
    program_of: ReadProgram, prepare: NewSession, script: str, said: list[str | int], seed: int
) -> None:
    script = script.replace("history(1)[0].content", "'8'")  # an item counts as given, also of an empty list
    script = yaml.dump(yaml.safe_load(script), Dumper=WithoutAliases, allow_unicode=True, sort_keys=False)
    reading = read_script(Source(script, "any.yaml", {"globals.yaml": GLOBALS}))
    assert reading.script is not None
    send_input = {
        (problem.path, problem.message.split("`")[1]) for problem in reading.problems if problem.code in TELLING
    }
    layout = ControlFlowGraph(reading.script)
    handed_in = {key[1] for key, mask in layout.at_start().masks.items() if mask == VALUE}
    given_values = {name: GIVEN[name] for name in sorted(handed_in & GIVEN.keys())}
    session = prepare(program_of(script, GLOBALS), seed=seed, limits=LIMITS, variables=given_values)
    await lived(session, said)
    for place, name, action in unset_reads(session):
        if is_only_used(action, name) and not is_passed(reading.script, place, name):
            event("told" if (place, name) in send_input else "not told")
            assert (place, name) in send_input, (place, name, action, script)


@pytest.mark.gate
@pytest.mark.timeout(600)
@settings(max_examples=repeats(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(script=scripts(), said=inputs, later=inputs, which=st.integers(0, 2))
async def test_any_exported_session_continues_elsewhere_as_here(
    app: OpenApp, script: str, said: list[Any], later: list[Any], which: int
) -> None:
    script = script.replace("{{ now }}", "")
    model = [OfflineModel, Unsteady, Wordy][which]
    form, media_type = [("json", "application/json"), ("yaml", "application/yaml")][len(said) % 2]
    with TemporaryDirectory() as name:
        here, there = Path(name) / "here", Path(name) / "there"
        here.mkdir()
        async with app(here, model(), scripts=here) as one, app(there, model(), scripts=here) as other:
            await one.publish_script(script, strict=False, files={"globals.yaml": GLOBALS})
            session = await begun(one)
            for each in said:
                session = await send_input(one, session, each)
            path = f"/api/sessions/{session['sessionId']}"
            exported = await one.get(f"{path}/export", params={"format": form})
            answer = await other.post(
                "/api/sessions/import", content=exported.content, headers={"Content-Type": media_type}
            )
            assert answer.status_code == 201, answer.text
            assert answer.json()["remarks"] == []
            again = await other.get(f"{path}/export")
            assert without_time(again.json()) == without_time((await one.get(f"{path}/export")).json())
            event(f"{min(answer.json()['turns'], 4)} turns")
            copied = session
            for each in later if which < 2 else ():  # what a wordy one says depends on all it said before
                session, copied = await send_input(one, session, each), await send_input(other, copied, each)
                assert as_it_stands(copied) == as_it_stands(session)


def without_time(document: Any) -> Any:
    """Return an exported session without when that was."""
    return {name: value for name, value in document.items() if name != "exported_at"}


def as_it_stands(answer: Any) -> Any:
    """Return an answer without what is new every time."""
    said = [(each["role"], each["content"], each["metadata"]) for each in answer.get("messages", [])]
    same = ("executionStatus", "position", "variables", "globalVariables", "turn", "wait", "aiMessage")
    return [answer.get(name) for name in same], said
