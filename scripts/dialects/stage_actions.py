"""The actions of the stage form: ``- say: …``, ``- ai_ask: …`` with its siblings, and the blocks around them."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import msgspec

from scripts.actions import LOOP_TURNS_MAX, Action, AiAsk, AiSay, Ask, Chat, Foreach, If, Repeat, Say, Until, UserSay
from scripts.dialects import stage_verbs
from scripts.dialects.stage_calls import call, choose, list_of_input
from scripts.dialects.stage_inline import with_verb
from scripts.dialects.stage_keys import Item, Notation, mappings
from scripts.dialects.stage_loops import foreach_of, loop_of
from scripts.dialects.stage_words import BLOCKS, DO, ELSE, ELSE_IF, FOREACH, KINDS, UNTIL, VERBS, WHEN, WHILE
from scripts.nodes import Expression
from scripts.source import Mapping, Scalar, Sequence, Tree
from scripts.suggest import suggest

Actions = tuple[Action, ...]

_TOLD = ("say", "ai_say", "ai_ask", "think", "user_say", "goto", "set", "end")  # never the name of a parameter


def block(notation: Notation, tree: Tree | None) -> Actions:
    """The actions of a list; one alone needs no dash."""
    found: list[Action] = []
    for each in mappings(tree):
        if isinstance(each, Mapping) and found and isinstance(last := found[-1], If) and _is_other_arm(each):
            found[-1] = _with_other_arm(notation, last, each)
        else:
            found += actions_of(notation, each)
    return tuple(found)


def actions_of(notation: Notation, tree: Tree) -> list[Action]:
    """What one item of a list stands for."""
    match tree:
        case Sequence():
            return list(block(notation, tree))
        case Scalar():
            if tree.value is None:
                return []
            notation.slip("TYPE_MISMATCH", "a text alone is said as it stands", tree.at, "Write `- say: …`.")
            return [Say(texts=(notation.template(tree),), at=tree.at)]
        case Mapping():
            return _of_mapping(notation, Item(notation, tree))


def _of_mapping(notation: Notation, item: Item) -> list[Action]:
    item = Item(notation, with_verb(item.tree))
    keys = item.keys()
    calls = any(VERBS.get(key) == "call" for key in keys)
    has_body = any(key in DO for key in keys)
    if any(key in FOREACH for key in keys) and not (calls and not has_body):
        return _foreach(notation, item)
    if any(key in {*UNTIL, *WHILE} for key in keys):
        return _repeat(notation, item)
    if "if" in keys and (has_body or any(key in {*ELSE, *ELSE_IF} for key in keys)):
        return _if(notation, item)
    if has_body and not any(key in VERBS for key in keys):
        body = list(block(notation, item.take(*DO)))  # a list in a list, perhaps with a name of its own
        condition = notation.condition(item.take(*WHEN))
        for name in ("goal", "topic", "name", "note", "title"):
            item.take(name)
        item.finish()
        return body if condition is None else [If(condition=condition, then=tuple(body), at=item.at)]
    return _verbs(notation, item)


# -- blocks -----------------------------------------------------------------------------------------------------------


def _body(notation: Notation, item: Item) -> Actions:
    """What stands in a block, be it a list below `do` or an action beside it."""
    inner = block(notation, item.take(*DO))
    beside = _verbs(notation, item) if any(key in VERBS for key in item.keys()) else []  # noqa: SIM118  (not a dict)
    item.finish()
    return (*inner, *beside)


def _foreach(notation: Notation, item: Item) -> list[Action]:
    loop, at_hand = foreach_of(notation, item)
    common = _common(notation, item)
    with notation.each(at_hand):
        body = _body(notation, item)
    return [Foreach(loop=loop, do=body, at=item.at, marks=item.marks, **common)]


def _repeat(notation: Notation, item: Item) -> list[Action]:
    is_while = any(key in WHILE for key in item.keys())  # noqa: SIM118
    tree = item.take(*(WHILE if is_while else UNTIL))
    most = item.take("max", "max_rounds", "max_times", "times", "limit")
    if isinstance(tree, Mapping) and tree.get("until") is not None:
        inner = Item(notation, tree)
        tree, most = inner.take("until"), most or inner.take("max")
        inner.finish()
    counted = isinstance(tree, Scalar) and isinstance(tree.value, int) and not isinstance(tree.value, bool)
    most = tree if counted else most
    condition = None if counted else notation.condition(tree)
    common = _common(notation, item)
    passes = notation.number(most, 1, LOOP_TURNS_MAX) or 100
    body = _body(notation, item)
    if not is_while:
        until = Until(until=condition, max=passes, at=item.at)
        return [Repeat(until=until, do=body, at=item.at, marks=item.marks, **common)]
    if condition is None:
        return [Repeat(until=Until(max=passes, at=item.at), do=body, at=item.at, **common)]
    ends = Expression(f"not ({condition.source})", condition.at)
    loop = Repeat(until=Until(until=ends, max=passes, at=item.at), do=body, at=item.at)
    return [If(condition=condition, then=(loop,), at=item.at, **common)]


def _if(notation: Notation, item: Item) -> list[Action]:
    condition = notation.condition(item.take("if")) or Expression("true", item.at)
    common = _common(notation, item, when=("when", "condition"))
    other = item.take(*ELSE)
    nested = [tree for key in ELSE_IF if key in item and (tree := item.take(key)) is not None]
    then = _body(notation, item)
    otherwise = block(notation, other)
    for arm in reversed([arm for tree in nested for arm in mappings(tree)]):
        otherwise = _elif(notation, arm, otherwise)
    found = If(condition=condition, then=then, otherwise=otherwise, at=item.at, marks=item.marks, **common)
    return [found]


def _elif(notation: Notation, tree: Tree, otherwise: Actions) -> Actions:
    """One ``{if: …, do: …}`` of an `elif` beside its `if`, with what is done where it does not hold."""
    if not isinstance(tree, Mapping) or tree.get("if") is None:
        notation.refuse("TYPE_MISMATCH", "expected `if` and `do`", tree.at, "Write `- elif: CONDITION` with `do:`.")
        return otherwise
    arm = _if(notation, Item(notation, tree))[0]
    return (msgspec.structs.replace(arm, otherwise=otherwise),) if isinstance(arm, If) else otherwise


def _is_other_arm(tree: Mapping) -> bool:
    return next(iter(tree.keys()), "") in {*ELSE, *ELSE_IF}


def _with_other_arm(notation: Notation, last: If, tree: Mapping) -> If:
    """An `if` with the `else` or `elif` that follows it as an item of its own."""
    item = Item(notation, tree)
    if last.otherwise and isinstance(inner := last.otherwise[-1], If) and len(last.otherwise) == 1:
        return msgspec.structs.replace(last, otherwise=(_with_other_arm(notation, inner, tree),))
    other = item.take(*ELSE)
    if isinstance(other, Scalar) and other.value is None:
        other = item.take(*DO) or other  # `- else:` with `do:` beside it
    if other is not None:
        item.finish()
        return msgspec.structs.replace(last, otherwise=(*last.otherwise, *block(notation, other)))
    condition = notation.condition(item.take(*ELSE_IF)) or Expression("true", item.at)
    then = _body(notation, item)
    return msgspec.structs.replace(last, otherwise=(*last.otherwise, If(condition=condition, then=then, at=item.at)))


# -- single actions ---------------------------------------------------------------------------------------------------


def _common(notation: Notation, item: Item, when: tuple[str, ...] = WHEN) -> dict[str, Any]:
    """What every action may have."""
    named = notation.id(item.word("id", "action_id"))
    return {
        "when": notation.condition(item.take(*when)),
        "tone": item.word("tone"),
        "role": item.word("role", "speaker", "ai_role"),
        **({"id": named} if named else {}),
    }


def _verbs(notation: Notation, item: Item) -> list[Action]:
    """The actions of one item, as a rule one; two in one item follow each other."""
    verbs = [key for key in item.keys() if key in VERBS]  # noqa: SIM118
    if not verbs:
        return _no_verb(notation, item)
    verbs = [key for key in verbs if VERBS[key] != "output"] or verbs[:1]
    common = _common(notation, item)
    found: list[Action] = []
    for index, verb in enumerate(verbs):
        if verb not in item:
            continue  # an action before it has taken it for one of its own keys
        if index > 0:
            message = f"`{verbs[0]}` and `{verb}` in one item; one follows the other"
            notation.slip("ACTION_AMBIGUOUS", message, item.at)
        shared = {key: value for key, value in common.items() if key != "id" or index == 0}
        tree = item.take(verb)
        action = _READERS[VERBS[verb]](notation, item, tree or Scalar("", True, item.at, 0), shared)
        if action is not None:
            mark = msgspec.structs.fields(type(action))
            name = next(field.encode_name for field in mark if field.required)
            marks = {**action.marks, name: tree.at if tree is not None else item.at}
            found.append(msgspec.structs.replace(action, at=item.at, marks=marks))
    beside = item.take("output", "outputs") if "output" in item or "outputs" in item else None
    if beside is not None:  # what an action that asks nothing is to learn from what was said
        found.append(msgspec.structs.replace(stage_verbs.take_only_of(notation, item, beside, {}), at=beside.at))
    if any(_says_nothing(action) for action in found) and (others := item.keys()):
        fix = "Write it as `content:`."
        notation.refuse("REQUIRED_FIELD_MISSING", f"`{verbs[0]}` has no text; `{others[0]}` is none", item.at, fix)
    item.finish()
    return found


def _says_nothing(action: Action) -> bool:
    match action:
        case Say(texts=texts):
            return not any(text.source for text in texts)
        case AiSay(task=text) | AiAsk(task=text) | Ask(question=text) | UserSay(text=text) | Chat(task=text):
            return not text.source
        case _:
            return False


def _no_verb(notation: Notation, item: Item) -> list[Action]:
    """An item that names no action, which is an error: what it was to do would never be done."""
    rest = item.the_rest()
    if not rest:
        return []
    kinds = [value for key, value in rest if key.text in KINDS and isinstance(value, Scalar) and value.value]
    named = kinds[0] if kinds else rest[0][0]
    fix = suggest(named.text, [*VERBS, *BLOCKS], otherwise=f"Use one of {', '.join(f'`{kind}`' for kind in _READERS)}.")
    notation.refuse("ACTION_TYPE_UNKNOWN", f"`{named.text}` is no action", named.at, fix)
    return []


def _call(notation: Notation, item: Item, tree: Tree, common: dict[str, Any]) -> Action | None:
    loop, at_hand = (None, None)
    listed = list_of_input(notation, item, tree)
    if any(key in FOREACH for key in item.keys()):  # noqa: SIM118
        loop, at_hand = foreach_of(notation, item)
        if listed is not None and at_hand.items != notation.word(listed).partition(".")[0]:
            notation.refuse("KEY_CONFLICT", "one call goes through one list; here are two", listed.at)
    elif listed is not None:
        loop, at_hand = loop_of(
            notation, Scalar(listed.text.partition(".")[0], False, listed.at, listed.at.line), "", item.at
        )
    with notation.each(at_hand) if at_hand is not None else nullcontext():
        return call(notation, item, tree, loop, common, [key for key in _TOLD if key in item])


def _choose(notation: Notation, item: Item, tree: Tree, common: dict[str, Any]) -> Action | None:
    def own(inner: Item) -> Actions:
        keys = [key for key in inner.keys() if key in {*VERBS, *DO, *BLOCKS}]  # noqa: SIM118
        taken = [(Scalar(key, True, inner.at, 0), tree) for key in keys if (tree := inner.take(key)) is not None]
        return block(notation, Mapping(tuple(taken), inner.at, len(taken))) if taken else ()

    return choose(notation, item, tree, common, own, {*VERBS, *DO, *BLOCKS})


_READERS: dict[str, Callable[[Notation, Item, Tree, dict[str, Any]], Action | None]] = {
    "say": stage_verbs.say_of,
    "ai_say": stage_verbs.ai_say_of,
    "ai_ask": stage_verbs.ai_ask_of,
    "ask": stage_verbs.ask_of,
    "think": stage_verbs.think_of,
    "user_say": stage_verbs.user_say_of,
    "choose": _choose,
    "call": _call,
    "form": stage_verbs.form_of,
    "show": stage_verbs.show_of,
    "set": stage_verbs.set_of,
    "goto": stage_verbs.goto_of,
    "end": stage_verbs.end_of,
    "scene": stage_verbs.scene,
    "chat": stage_verbs.chat_of,
    "emit": stage_verbs.emit_of,
    "output": stage_verbs.take_only_of,
}
