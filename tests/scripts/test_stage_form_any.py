"""Whatever is written in the stage form: it is read or refused with reasons, and what is read can be converted."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.conversion import NotConvertible, convert
from scripts.parse import Source, read_script

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


@settings(max_examples=150, deadline=None)
@given(DOCUMENTS)
def test_any_document_of_the_form_is_read_and_what_is_odd_is_told(document):
    text = json.dumps(document, ensure_ascii=False)  # JSON is YAML
    reading = read_script(Source(text, "any.yaml"))
    assert reading.script is not None, (text, reading.errors)
    try:
        convert(reading.script, reading)
    except NotConvertible as why:
        assert "defect" not in str(why), (text, str(why))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["- say: ", "{x}", "，", "|# a", "\n", "  ", "\t", "'", '"', ": ", "：", "# b", "a", "&x", "[", "- "]
        )
    )
)
def test_any_line_noise_is_read_or_refused(parts):
    text = (
        "sessions:\n- session: s\n  stages:\n  - stage: t\n    steps:\n    - goal: g\n      actions:\n      "
        + "".join(parts)
    )
    reading = read_script(Source(text, "any.yaml"))
    assert reading.script is not None or reading.errors
