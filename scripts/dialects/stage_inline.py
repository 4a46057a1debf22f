"""Actions whose kind stands in a key: ``{type: ai_say, content: …}``, as ``{ai_say: …}`` with its siblings."""

from collections.abc import Mapping as MappingType

from scripts.dialects.stage_words import BLOCKS, KINDS, OLDER_TEXTS, SPOKEN, TEXTS, VERBS
from scripts.source import Mapping, Scalar, Tree

Pair = tuple[Scalar, Tree]

_NAMES: MappingType[str, tuple[str, ...]] = {
    "choose": ("variable", "var", "output", "get"),
    "call": ("skill", "goal", "skill_id", "skill_name", "technique_id", "name"),
    "form": ("form", "form_id", "form_name", "name"),
    "set": ("set", "variable", "var", "name"),
    "goto": ("target", "goal", "topic", "stage", "to"),
    "end": ("reason", *TEXTS),
    "emit": ("event", "event_type", "name"),
    "scene": ("scene", "name"),
    "show": ("image", "pic", "src", "picture", "url"),
    "if": ("if", "condition", "when"),
    "loop": ("until", "loop_until", "while", "condition", "when"),
    "foreach": ("list", "items", "foreach", "fromlist", "in", "of"),
}
"""Of what is not said, the keys of what stands behind the action's name."""
_MEDIA = ("url", "link", "caption", "text", "desc")
_OLDER = {"target_variable": "get", "extraction_prompt": "define"}


def with_verb(tree: Mapping) -> Mapping:
    """The item with the name of its action as a key, and with its text behind that."""
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
    pairs = [each for pair in _filled(pairs) for each in _spread(pair)]
    taken = [key.text for key, _ in pairs]
    return Mapping(tuple(pairs), tree.at, len(pairs)) if len(set(taken)) == len(taken) else tree


def _inline(word: str, kind: Scalar, pairs: list[Pair]) -> list[Pair]:
    rest = [pair for pair in pairs if pair[0].text not in KINDS]
    meaning = VERBS.get(word, "foreach" if "each" in word or "from" in word else "if" if word == "if" else "loop")
    names = _NAMES.get(meaning, (*TEXTS, *OLDER_TEXTS))
    found = next((pair for name in names for pair in rest if pair[0].text == name), None)
    if found is not None:
        rest.remove(found)
    if meaning == "show" and found is not None:
        media = [found, *(pair for pair in rest if pair[0].text in _MEDIA)]
        rest = [pair for pair in rest if pair not in media]
        found = (found[0], Mapping(tuple(media), found[1].at, len(media)))
    value: Tree = found[1] if found is not None else Scalar("", True, kind.at, kind.at.line)
    return [(Scalar(word, True, kind.at, kind.at.line), value), *_without_older(rest)]


def _without_older(pairs: list[Pair]) -> list[Pair]:
    """The pairs with ``output`` for a `target_variable` and what stands beside it."""
    older = [(Scalar(_OLDER[key.text], True, key.at, 0), value) for key, value in pairs if key.text in _OLDER]
    if not any(key.text == "get" for key, _ in older) or any(key.text == "output" for key, _ in pairs):
        return pairs
    at = older[0][0].at
    rest = [pair for pair in pairs if pair[0].text not in _OLDER]
    return [*rest, (Scalar("output", True, at, 0), Mapping(tuple(older), at, len(older)))]


def _filled(pairs: list[Pair]) -> list[Pair]:
    """``ai_ask:`` with ``content:`` beside it has that as its text."""
    verb = next((pair for pair in pairs if pair[0].text in SPOKEN and _is_empty(pair[1])), None)
    text = next((pair for name in TEXTS for pair in pairs if pair[0].text == name), None)
    if verb is None or text is None:
        return pairs
    return [(verb[0], text[1]) if pair is verb else pair for pair in pairs if pair is not text]


def _spread(pair: Pair) -> list[Pair]:
    """``ai_ask: {task: …, output: …}`` as the text with its siblings."""
    key, value = pair
    named = [each for each in value.pairs if each[0].text in TEXTS] if isinstance(value, Mapping) else []
    if key.text not in SPOKEN or not isinstance(value, Mapping) or not named or len(value.pairs) == 1:
        return [pair]
    return [(key, named[0][1]), *(each for each in value.pairs if each is not named[0])]


def _is_empty(tree: Tree) -> bool:
    return isinstance(tree, Scalar) and tree.value is None
