"""Whatever is written in the stage form: it is read or refused with reasons, and what is read can be converted."""

import itertools
import json
import re

import msgspec
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scripts.model.diagnostics import Problem
from scripts.model.script import Script
from scripts.parse.conversion import NotConvertible, convert
from scripts.parse.read_script import Source, read_script
from tests.support.effort import repeats

NAMES = st.sampled_from(["age", "城市", "people", "{age}", "first name", "user", "1st", "a-b", "", "goal 1/2"])
TEXTS = st.one_of(
    NAMES,
    st.sampled_from(
        ["{age} > 3 && !{城市}", "{people.length}", "Hello {城市}!", "{item.name}", "{{x}}", "people as p", "A"]
    ),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12),
)
PLAIN = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(-5, 2000), st.lists(TEXTS, max_size=2))
VERBS = [
    "say",
    "ai_say",
    "ai_ask",
    "think",
    "user_say",
    "user_option",
    "call",
    "fill",
    "set",
    "goto",
    "scene",
    "show",
    "chat",
    "foreach",
    "loop_until",
    "while",
    "if",
    "else",
    "elif",
    "end",
]
BESIDE = [
    "emit",
    "output",
    "tolist",
    "value",
    "when",
    "as",
    "choices",
    "exit",
    "max_rounds",
    "id",
    "role",
    "input",
    "get",
    "define",
    "type",
    "required",
    "ai",
    "then",
    "nonsense",
]
KEYS = st.sampled_from([*VERBS, *BESIDE])
OUTPUT_KEYS = st.sampled_from(
    ["get", "set", "define", "value", "tolist", "type", "choices", "when", "fields", "default"]
)
OUTPUTS = st.one_of(PLAIN, st.lists(st.dictionaries(OUTPUT_KEYS, PLAIN, max_size=4), max_size=3))
ACTIONS = st.recursive(
    st.one_of(PLAIN, st.dictionaries(KEYS, st.one_of(PLAIN, OUTPUTS), min_size=1, max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(st.dictionaries(KEYS, PLAIN, max_size=3), st.lists(inner, max_size=3)).map(
            lambda pair: {**pair[0], "do": pair[1]}
        ),
        st.dictionaries(KEYS, inner, min_size=1, max_size=3),
    ),
    max_leaves=12,
)
DECLARED = st.one_of(
    PLAIN,
    st.lists(st.one_of(NAMES, st.dictionaries(st.sampled_from(["var", "name", "value", "type"]), PLAIN)), max_size=3),
)
STEPS = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"goal": NAMES, "actions": st.lists(ACTIONS, max_size=4)}, optional={"declare": DECLARED}
        ),
        st.fixed_dictionaries({"scene": NAMES, "ai": NAMES}),
        ACTIONS,
    ),
    max_size=3,
)
STAGES = st.lists(st.fixed_dictionaries({"stage": NAMES, "steps": STEPS}, optional={"when": TEXTS}), max_size=2)
SESSIONS = st.fixed_dictionaries({"session": NAMES, "stages": STAGES}, optional={"declare": DECLARED})
RULES = st.lists(st.dictionaries(st.sampled_from(["rule", "on", "if", "do", "then"]), ACTIONS, max_size=4), max_size=2)
FORMS = st.lists(
    st.dictionaries(st.sampled_from(["form", "title", "fields", "python"]), OUTPUTS, max_size=3), max_size=2
)
DOCUMENTS = st.fixed_dictionaries(
    {"sessions": st.lists(SESSIONS, min_size=1, max_size=2)},
    optional={"rules": RULES, "forms": FORMS, "skills": STEPS, "roles": DECLARED, "global": DECLARED},
)


@settings(max_examples=repeats(150), deadline=None)
@given(DOCUMENTS)
@example({"sessions": [{"session": "age", "stages": []}], "rules": [{"rule": [], "do": "age"}]})
def test_any_document_is_read_or_refused_with_reasons(document) -> None:
    text = json.dumps(document, ensure_ascii=False)  # JSON is YAML
    reading = read_script(Source(text, "any.yaml"))
    assert reading.script is not None or reading.errors
    try:
        _ = reading.script is None or convert(reading.script, reading)
    except NotConvertible as why:
        assert "defect" not in str(why), (text, str(why))


KEYS_OF_ACTIONS = [*VERBS, *BESIDE, "type", "action_type", "content", "timing", "fromlist", "exit_when", "question"]
KINDS = st.sampled_from(["say", "ai_say", "ai_ask", "think", "user_say", "set", "goto", "call", "show", "dance"])


@st.composite
def marked_actions(draw: st.DrawFn) -> list[object]:
    """Draw actions in which every text is a word of its own."""
    numbers = itertools.count(1)

    def text() -> str:
        return f"word{next(numbers)}x"

    def value(depth: int) -> object:
        kind = draw(st.integers(0, 7 if depth else 3))
        if kind < 4:
            return text()
        if kind == 4:
            return [text(), text()]
        if kind == 5:
            return [action(depth - 1) for _ in range(draw(st.integers(1, 2)))]
        return {draw(st.sampled_from(["get", "set", "value", "define", "A", "var", "if", "do"])): value(0)}

    def action(depth: int) -> dict[str, object]:
        keys = draw(st.lists(st.sampled_from(KEYS_OF_ACTIONS), min_size=1, max_size=3, unique=True))
        return {key: draw(KINDS) if key in {"type", "action_type"} else value(depth) for key in keys}

    return [action(2) for _ in range(draw(st.integers(1, 3)))]


@settings(max_examples=repeats(400), deadline=None, derandomize=True)  # a rare find belongs in no other change
@given(marked_actions())
def test_no_word_of_an_action_vanishes_unless_a_line_says_so(actions) -> None:
    sides = {"skills.yaml": "skills: [{goal: word1x, actions: [{say: a}]}]", "forms.yaml": ""}
    steps = [{"goal": "goal", "actions": actions}]
    document = {"sessions": [{"session": "s", "stages": [{"stage": "stage", "steps": steps}]}]}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    reading = read_script(Source(text, "any.yaml", sides))
    if reading.script is None:
        return
    assert lost_words(text, reading.script, reading.problems) == [], text


NOTED = {"UNKNOWN_KEY", "KEY_IGNORED", "VARIABLE_NAME_INVALID", "DUPLICATE_DECLARATION"}


def lost_words(text: str, script: Script, problems: tuple[Problem, ...]) -> list[str]:
    """Return the words of a text that are neither in its script nor below a key that a diagnostic names."""
    written = msgspec.json.encode(script).decode()
    named = {problem.line for problem in problems if problem.code in NOTED}
    lost: list[str] = []
    above: list[tuple[int, int]] = []  # the lines around this one, with how far each is indented
    for number, line in enumerate(text.splitlines(), 1):
        head = re.match(r"[ ]*(?:- )*", line)
        indent = head.end() if head is not None else 0
        above = [*(each for each in above if each[0] < indent), (indent, number)]
        words = re.findall(r"word\d+x", line)
        lost += [word for word in words if word not in written and not named & {place for _, place in above}]
    return lost


@settings(max_examples=repeats(150), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["- say: ", "{x}", "，", "|# a", "\n", "  ", "\t", "'", '"', ": ", "：", "# b", "a", "&x", "[", "- "]
        )
    )
)
def test_any_line_noise_is_read_or_refused(parts) -> None:
    text = (
        "sessions:\n- session: s\n  stages:\n  - stage: t\n    steps:\n    - goal: g\n      actions:\n      "
        + "".join(parts)
    )
    reading = read_script(Source(text, "any.yaml"))
    assert reading.script is not None or reading.errors
