"""The actions of the stage format: ``- say: …``, ``- ai_ask: …`` with its siblings, and blocks of actions."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from msgspec.structs import replace

from scripts.expressions.suggestions import suggest
from scripts.formats.stage import keywords, verb_actions
from scripts.formats.stage.calls import call, choose, foreach_of, list_of_input, loop_of
from scripts.formats.stage.names import node_id
from scripts.formats.stage.stage_reader import NEVER, Item, StageReader, entries
from scripts.formats.words import VERBS
from scripts.model import actions
from scripts.model.base import Expression
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, is_null, word
from scripts.yaml.unknown_keys import is_note

Actions = tuple[actions.Action, ...]

_ACTION_KEYS = ("say", "ai_say", "ai_ask", "think", "user_say", "goto", "set", "end")  # never the name of a parameter


def block(notation: StageReader, tree: Tree | None) -> Actions:
    """Read a list of actions; a single action needs no dash."""
    found: list[actions.Action] = []
    for each in entries(tree):
        if isinstance(each, Mapping):
            each = notation.reader.in_snake_case(each, keywords.ACTION_WORDS)
        if isinstance(each, Mapping) and found and isinstance(last := found[-1], actions.If) and _is_other_arm(each):
            found[-1] = _with_other_arm(notation, last, each)
        else:
            found += actions_of(notation, each)
    return tuple(found)


def actions_of(notation: StageReader, tree: Tree) -> list[actions.Action]:
    """Read one item of a list."""
    match tree:
        case Sequence():
            return list(block(notation, tree))
        case Scalar():
            if tree.value is None:
                return []
            if tree.plain and VERBS.get(tree.text) in {"end", "user_say"}:  # they need no value
                return _of_mapping(notation, Item(notation, Mapping(((tree, word("", tree)),), tree.at)))
            verb, _, text = tree.text.partition(" ")
            if tree.plain and text.strip() and verb in VERBS and ("_" in verb or verb == "say"):  # no word of a text
                notation.slip("SYNTAX_ERROR", f"a colon is missing after `{verb}`", tree.at, f"Write `- {verb}: …`.")
                pair = (replace(tree, text=verb), replace(tree, text=text.strip()))
                return _of_mapping(notation, Item(notation, Mapping((pair,), tree.at)))
            notation.slip("TYPE_MISMATCH", "a text without a key is said unchanged", tree.at, "Write `- say: …`.")
            return [actions.Say(texts=(notation.template(tree),), at=tree.at)]
        case Mapping():
            return _of_mapping(notation, Item(notation, tree))


def _of_mapping(notation: StageReader, item: Item) -> list[actions.Action]:
    config = item.tree.get("config")
    for key in config.keys() if isinstance(config, Mapping) else ():
        if key in item:
            notation.refuse("KEY_CONFLICT", f"`{key}` is beside `config` and in it", item.at, "Write it once.")
    item = Item(notation, keywords.with_verb(item.tree))
    for verb, skills in item.tree.pairs:
        if VERBS.get(verb.text) == "call" and isinstance(skills, Sequence):  # call: [A, B]
            rest = tuple(pair for pair in item.tree.pairs if pair[0] is not verb)
            each = (Mapping(((verb, skill), *rest), skill.at) for skill in skills.items)
            return [action for tree in each for action in _of_mapping(notation, Item(notation, tree))]
    keys = item.keys()
    calls = any(VERBS.get(key) == "call" for key in keys)
    has_body = any(key in keywords.DO for key in keys)
    if any(key in keywords.FOREACH for key in keys) and not (calls and not has_body):
        return _foreach(notation, item)
    if any(key in {*keywords.UNTIL, *keywords.WHILE} for key in keys):
        return _repeat(notation, item)
    if "if" in keys and (has_body or not any(key in VERBS for key in keys)):
        return _if(notation, item)
    if has_body and not any(key in VERBS for key in keys):
        body = list(block(notation, item.take(*keywords.DO)))  # a nested list, possibly with a name
        condition = notation.condition(item.take(*keywords.WHEN))
        for name in ("goal", "topic", "name", "note", "title"):
            item.take(name)
        item.finish()
        return body if condition is None else [actions.If(condition=condition, then=tuple(body), at=item.at)]
    return _verbs(notation, item)


# -- blocks -----------------------------------------------------------------------------------------------------------


def _body(notation: StageReader, item: Item) -> Actions:
    """Read the content of a block: a list below `do`, or an action beside the block's key."""
    inner = block(notation, item.take(*keywords.DO))
    beside = _verbs(notation, item) if item.keys_in(VERBS) else []
    item.finish()
    return (*inner, *beside)


def _foreach(notation: StageReader, item: Item) -> list[actions.Action]:
    loop, at_hand = foreach_of(notation, item)
    common = _common(notation, item)
    with notation.each(at_hand):
        body = _body(notation, item)
    return [actions.Foreach(loop=loop, do=body, at=item.at, marks=item.marks, **common)]


def _repeat(notation: StageReader, item: Item) -> list[actions.Action]:
    is_while = item.keys_in(keywords.WHILE)
    tree = item.take(*(keywords.WHILE if is_while else keywords.UNTIL))
    most = item.take("max", "max_rounds", "max_times", "times", "limit")
    if isinstance(tree, Mapping) and (tree.get("until") is not None or tree.get("max") is not None):
        inner = Item(notation, tree)
        tree, most = inner.take("until"), most or inner.take("max")
        inner.finish()
    counted = isinstance(tree, Scalar) and isinstance(tree.value, int) and not isinstance(tree.value, bool)
    most = tree if counted else most
    condition = None if counted else notation.condition(tree)
    if condition is None and most is None:
        word = "while" if is_while else "until"
        notation.lacks("the loop has no condition and no `max`", item.at, f"Write `loop_{word}: CONDITION`.")
    common = _common(notation, item)
    passes = notation.number(most, 1, actions.LOOP_TURNS_MAX) or 100
    body = _body(notation, item)
    if not is_while or condition is None:
        until = actions.Until(until=condition, max=passes, at=item.at)
        return [actions.Repeat(until=until, do=body, at=item.at, marks=item.marks, **common)]
    ends = Expression(f"not ({condition.source})", condition.at)
    loop = actions.Repeat(until=actions.Until(until=ends, max=passes, at=item.at), do=body, at=item.at)
    return [actions.If(condition=condition, then=(loop,), at=item.at, **common)]


def _if(notation: StageReader, item: Item) -> list[actions.Action]:
    condition = notation.condition(item.take("if"))
    if condition is None:
        notation.lacks("`if` has no condition", item.at, "Write `if: CONDITION`.")
        condition = Expression(NEVER, item.at)
    common = _common(notation, item, when=("when", "condition"))
    other = item.take(*keywords.ELSE)
    nested = [tree for key in keywords.ELSE_IF if key in item and (tree := item.take(key)) is not None]
    if not item.keys_in({*keywords.DO, *VERBS}) and other is None and not nested:
        notation.lacks("`if` has no actions", item.at, "Write them below `do:`.")
    then = _body(notation, item)
    otherwise = block(notation, other)
    for arm in reversed([arm for tree in nested for arm in entries(tree)]):
        otherwise = _elif(notation, arm, otherwise)
    return [actions.If(condition=condition, then=then, otherwise=otherwise, at=item.at, marks=item.marks, **common)]


def _elif(notation: StageReader, tree: Tree, otherwise: Actions) -> Actions:
    """Read a ``{if: …, do: …}`` of an `elif` beside its `if`, with its `else`."""
    if not isinstance(tree, Mapping) or tree.get("if") is None:
        notation.refuse("TYPE_MISMATCH", "expected `if` and `do`", tree.at, "Write `- elif: CONDITION` with `do:`.")
        return otherwise
    arm = _if(notation, Item(notation, tree))[0]
    return (replace(arm, otherwise=otherwise),) if isinstance(arm, actions.If) else otherwise


def _is_other_arm(tree: Mapping) -> bool:
    return next(iter(tree.keys()), "") in {*keywords.ELSE, *keywords.ELSE_IF}


def _with_other_arm(notation: StageReader, last: actions.If, tree: Mapping) -> actions.If:
    """Read an `if` with the `else` or `elif` that follows as a separate item."""
    item = Item(notation, tree)
    if last.otherwise and isinstance(inner := last.otherwise[-1], actions.If) and len(last.otherwise) == 1:
        return replace(last, otherwise=(_with_other_arm(notation, inner, tree),))
    other = item.take(*keywords.ELSE)
    if other is not None and is_null(other):
        other = item.take(*keywords.DO) or other  # `- else:` with a sibling `do:`
    if other is not None:
        item.finish()
        return replace(last, otherwise=(*last.otherwise, *block(notation, other)))
    condition = notation.condition(item.take(*keywords.ELSE_IF)) or Expression("true", item.at)
    then = _body(notation, item)
    return replace(last, otherwise=(*last.otherwise, actions.If(condition=condition, then=then, at=item.at)))


# -- single actions ---------------------------------------------------------------------------------------------------


def _common(notation: StageReader, item: Item, when: tuple[str, ...] = keywords.WHEN) -> dict[str, Any]:
    """Read the keys that every action may have."""
    named = node_id(item.word("id", "action_id"))
    return {
        "when": notation.condition(item.take(*when)),
        "tone": item.word("tone"),
        "role": item.word("role", "speaker", "ai_role", "by"),
        **({"id": named} if named else {}),
    }


def _verbs(notation: StageReader, item: Item) -> list[actions.Action]:
    """Read the actions of an item, usually one; two actions in one item run in order."""
    verbs = item.keys_in(VERBS)
    if not verbs:
        return _no_verb(notation, item)
    verbs = [key for key in verbs if VERBS[key] != "output"] or verbs[:1]
    common = _common(notation, item)
    found: list[actions.Action] = []
    for index, verb in enumerate(verbs):
        if verb not in item:
            continue  # an earlier action has read it as one of its own keys
        if index > 0:
            notation.slip("ACTION_AMBIGUOUS", f"`{verbs[0]}` and `{verb}` in one item; they run in order", item.at)
        shared = {key: value for key, value in common.items() if key != "id" or index == 0}
        tree = item.take(verb)
        action = _READERS[VERBS[verb]](notation, item, tree or Scalar("", True, item.at), shared)
        if action is not None:
            marks = {**action.marks, actions.action_type(action): tree.at if tree is not None else item.at}
            found.append(replace(action, at=item.at, marks=marks))
    beside = item.take("output", "outputs") if "output" in item or "outputs" in item else None
    if beside is not None:  # outputs of an action that asks no question
        found.append(replace(verb_actions.take_only_of(notation, item, beside, {}), at=beside.at))
    if any(_says_nothing(action) for action in found) and (others := item.keys()):
        notation.lacks(f"`{verbs[0]}` has no text; `{others[0]}` is not a text", item.at, "Write it as `content:`.")
    item.finish()
    return found


def _says_nothing(action: actions.Action) -> bool:
    match action:
        case actions.Say(texts=texts):
            return not any(text.source for text in texts)
        case actions.AiSay(task=text) | actions.AiAsk(task=text) | actions.Chat(task=text):
            return not text.source
        case actions.Ask(question=text) | actions.UserSay(text=text):
            return not text.source
        case _:
            return False


def _no_verb(notation: StageReader, item: Item) -> list[actions.Action]:
    """Report an item without an action as an error, because its intention would be lost."""
    rest = item.the_rest()
    if not rest:
        return []
    if all(is_note(key.text) for key, _ in rest):
        for key, value in rest:
            notation.report_unknown(key, value, ())
        return []
    kinds = [value for key, value in rest if key.text in keywords.KINDS and isinstance(value, Scalar) and value.value]
    named = kinds[0] if kinds else rest[0][0]
    kinds_known = f"Use one of {', '.join(f'`{kind}`' for kind in _READERS)}."
    fix = suggest(named.text, [*VERBS, *keywords.BLOCKS], otherwise=kinds_known)
    notation.refuse("ACTION_TYPE_UNKNOWN", f"`{named.text}` is not an action", named.at, fix)
    return []


def _call(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action | None:
    loop, at_hand = (None, None)
    listed = list_of_input(notation, item, tree)
    if item.keys_in(keywords.FOREACH):
        loop, at_hand = foreach_of(notation, item)
        if listed is not None and at_hand.items != notation.word(listed).partition(".")[0]:
            notation.refuse("KEY_CONFLICT", "a call loops over one list; this one has two", listed.at)
    elif listed is not None:
        loop, at_hand = loop_of(notation, Scalar(listed.text.partition(".")[0], False, listed.at), "", item.at)
    with notation.each(at_hand) if at_hand is not None else nullcontext():
        return call(notation, item, tree, loop, common, [key for key in _ACTION_KEYS if key in item])


def _choose(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action | None:
    def own(inner: Item) -> Actions:
        keys = inner.keys_in(keywords.INNER_WORDS)
        pairs = [(Scalar(key, True, inner.at), tree) for key in keys if (tree := inner.take(key)) is not None]
        return block(notation, Mapping(tuple(pairs), inner.at)) if pairs else ()

    return choose(notation, item, tree, common, own)


_READERS: dict[str, Callable[[StageReader, Item, Tree, dict[str, Any]], actions.Action | None]] = {
    "say": verb_actions.say_of,
    "ai_say": verb_actions.ai_say_of,
    "ai_ask": verb_actions.ai_ask_of,
    "ask": verb_actions.ask_of,
    "think": verb_actions.think_of,
    "user_say": verb_actions.user_say_of,
    "choose": _choose,
    "call": _call,
    "form": verb_actions.form_of,
    "show": verb_actions.show_of,
    "set": verb_actions.set_of,
    "goto": verb_actions.goto_of,
    "end": verb_actions.end_of,
    "scene": verb_actions.scene,
    "chat": verb_actions.chat_of,
    "emit": verb_actions.emit_of,
    "output": verb_actions.take_only_of,
}
