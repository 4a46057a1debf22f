"""The keywords of the stage format: actions, blocks, keys that the runtime does not support, and ``type: ai_say``."""

from collections.abc import Mapping as MappingType

from scripts.formats.words import VALUE_KEYS, VERBS
from scripts.yaml.parser import Mapping, Scalar, Tree, is_null

DO = ("do", "then", "actions", "steps")
ELSE = ("else", "else_do", "otherwise", "else_actions")
ELSE_IF = ("elif", "else_if", "elseif", "elsif")
UNTIL = ("loop_until", "repeat_until", "until", "repeat", "loop")
WHILE = ("while", "loop_while")
FOREACH = ("foreach", "for_each", "for", "fromlist", "from_list", "fromList")
WHEN = ("when", "condition", "if", "only_if")
TEXTS = ("task", "content", "text", "question", "prompt", "message")
"""The keys of an action's text, if it is not the value of the action's own key."""
OLDER_TEXTS = ("content_template", "question_template", "prompt_template", "think_goal")
KINDS = ("action_type", "type", "action")
"""The keys that name an action in ``{type: ai_say, content: …}``."""

BLOCKS = frozenset({*FOREACH, "if", *UNTIL, *WHILE})
INNER_WORDS = frozenset({*VERBS, *DO, *BLOCKS})
"""The keys that may hold the actions of a choice."""
ACTION_WORDS = frozenset({*VERBS, *BLOCKS, *ELSE, *ELSE_IF, *DO})
SPOKEN = frozenset(
    word for word, kind in VERBS.items() if kind in {"say", "ai_say", "ai_ask", "ask", "think", "user_say", "chat"}
)

_TIMES = "Remove it; if the application measures the time, `emit: EVENT` signals the start."
UNSUPPORTED: MappingType[str, tuple[str, str]] = {
    "timing": ("the stage format does not measure time", _TIMES),
    "timing_to": ("the stage format does not measure time", _TIMES),
    "check_time": (
        "a rule is evaluated for every message of the user, and at no other time",
        "Write `check_time: user_say`, or remove it.",
    ),
}
"""Keys of the original system that are not supported here: the reason, and what to write instead."""


# -- actions with a type key -----------------------------------------------------------------------------------------


Pair = tuple[Scalar, Tree]

_OLDER = {"target_variable": "get", "extraction_prompt": "define"}


def with_verb(tree: Mapping) -> Mapping:
    """Return the item with its action as a key, and its text as the value."""
    kind = next((value for key in KINDS if isinstance(value := tree.get(key), Scalar)), None)
    config = tree.get("config")
    pairs = list(tree.pairs)
    if isinstance(config, Mapping):
        own = {key.text for key, _ in config.pairs}
        pairs = [pair for pair in pairs if pair[0].text not in {"config", *own}] + list(config.pairs)
    is_named = any(key.text in {*VERBS, *BLOCKS} - {"output", "outputs", "get", "if"} for key, _ in tree.pairs)
    is_named = is_named and tree.pairs[0][0].text not in KINDS
    word = kind.text.strip() if kind is not None else ""
    if kind is not None and word in {*VERBS, *BLOCKS} and (not is_named or isinstance(config, Mapping)):
        pairs = _inline(word, kind, pairs)
    pairs = [each for pair in _fill_text(pairs) for each in _spread(pair)]
    names = [key.text for key, _ in pairs]
    return Mapping(tuple(pairs), tree.at) if len(set(names)) == len(names) else tree


def _inline(word: str, kind: Scalar, pairs: list[Pair]) -> list[Pair]:
    rest = [pair for pair in pairs if pair[0].text not in KINDS]
    meaning = VERBS.get(word, "foreach" if "each" in word or "from" in word else "if" if word == "if" else "loop")
    names = VALUE_KEYS.get(meaning, (*TEXTS, *OLDER_TEXTS))
    found = next((pair for name in names for pair in rest if pair[0].text == name), None)
    if found is not None:
        rest.remove(found)
    if meaning == "show" and found is not None:
        media = [found, *(pair for pair in rest if pair[0].text in ("url", "link", "caption", "text", "desc"))]
        rest = [pair for pair in rest if pair not in media]
        found = (found[0], Mapping(tuple(media), found[1].at))
    value: Tree = found[1] if found is not None else Scalar("", True, kind.at)
    return [(Scalar(word, True, kind.at), value), *_without_older(rest)]


def _without_older(pairs: list[Pair]) -> list[Pair]:
    """Convert `target_variable` and its siblings to ``output``."""
    older = [(Scalar(_OLDER[key.text], True, key.at), value) for key, value in pairs if key.text in _OLDER]
    if not any(key.text == "get" for key, _ in older) or any(key.text == "output" for key, _ in pairs):
        return pairs
    at = older[0][0].at
    rest = [pair for pair in pairs if pair[0].text not in _OLDER]
    return [*rest, (Scalar("output", True, at), Mapping(tuple(older), at))]


def _fill_text(pairs: list[Pair]) -> list[Pair]:
    """Use ``content:`` beside an empty ``ai_ask:`` as its text."""
    verb = next((pair for pair in pairs if pair[0].text in SPOKEN and is_null(pair[1])), None)
    text = next((pair for name in TEXTS for pair in pairs if pair[0].text == name), None)
    if verb is None or text is None:
        return pairs
    return [(verb[0], text[1]) if pair is verb else pair for pair in pairs if pair is not text]


def _spread(pair: Pair) -> list[Pair]:
    """Convert ``ai_ask: {task: …, output: …}``, ``user_option: {var: …, choices: …}`` and ``if: {condition: …, do: …}``
    to a value with siblings.
    """
    key, value = pair
    if not isinstance(value, Mapping) or len(value.pairs) == 1:
        return [pair]
    is_choice = VERBS.get(key.text) == "choose" and {"choices", "options"} & set(value.keys())
    is_branch = key.text == "if" and {*DO, *ELSE} & set(value.keys())
    meaning = "choose" if is_choice else "if" if is_branch else ""
    names = TEXTS if key.text in SPOKEN else VALUE_KEYS.get(meaning, ())
    named = [each for each in value.pairs if each[0].text in names]
    if not named:
        return [(key, Scalar("", True, key.at)), *value.pairs] if is_choice else [pair]
    return [(key, named[0][1]), *(each for each in value.pairs if each is not named[0])]
