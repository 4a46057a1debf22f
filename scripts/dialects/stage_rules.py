"""The rules of the stage form, what may come up at any time, as interrupts."""

import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from scripts.actions import Action
from scripts.dialects.conditions import is_computed
from scripts.dialects.stage_actions import actions_of, block
from scripts.dialects.stage_keys import Item, Notation, mappings
from scripts.dialects.stage_words import BLOCKS, KINDS, UNSUPPORTED, VERBS
from scripts.model import After, Interrupt, Trigger
from scripts.nodes import Expression
from scripts.source import Mapping, Scalar, Sequence, Tree

_POLICIES = {
    "resume": After(),
    "restart_topic": After(policy="restart_topic"),
    "leave_topic": After(policy="leave_topic"),
    "skip": After(policy="skip"),
    "end": After(policy="end"),
}
_PRIORITY_MAX = 1_000_000
_EVERY_MESSAGE = re.compile(
    r"user|human|visitor|reply|replies|input|message|every|each|always|any|turn"
    r"|用户|来访|心旅者|回复|说话|输入|每|任何|随时|总是"
)
_OTHER_TIME = re.compile(
    r"\d|second|minute|hour|timer|(?<![a-z])(before|start|begin|end|ai)(?![a-z])"
    r"|秒|分钟|小时|定时|前|开始|结束|助理|向导"
)


class _Cause(Struct):
    """What brings a rule up, as far as it was found."""

    keywords: tuple[str, ...] = ()
    intent: str = ""
    detector: str = ""
    when: Expression | None = None


def rule(notation: Notation, tree: Mapping) -> Interrupt:
    """A rule as an interrupt. One that names no cause is known by what it is called, which the model judges."""
    item = Item(notation, tree)
    written = item.word("rule", "name", "id", "interrupt")
    goal = item.word("goal", "topic")
    cause = _cause(notation, item)
    about = item.word("define", "desc", "description") or goal or written
    if not (cause.keywords or cause.intent or cause.detector):
        message = "no words say when this happens; the model judges by what it is called"
        notation.slip("TRIGGER_EMPTY", message, tree.at, "Write `on:` with words to listen for.")
        cause.intent = about or "rule"
    then = item.take("then", "after")
    priority = notation.number(item.take("priority", "order"), -_PRIORITY_MAX, _PRIORITY_MAX) or 0
    _look(notation, item)
    actions = (*block(notation, item.take("actions", "do", "steps")), *_beside(notation, item))
    policy = _policy(notation, then)
    if policy is None and then is not None:
        actions = (*actions, *block(notation, then))
    found = Interrupt(
        id=notation.id(written or goal),
        on=Trigger(
            keywords=cause.keywords, intent=cause.intent, detector=cause.detector, at=item.marks.get("on", tree.at)
        ),
        when=cause.when,
        priority=priority,
        actions=actions,
        then=policy or After(),
        at=tree.at,
        marks={**item.marks, "interrupt": item.marks.get("rule", tree.at)},
    )
    item.finish()
    if not actions and policy is None:
        message = "this rule does nothing"
        notation.refuse("REQUIRED_FIELD_MISSING", message, tree.at, "Add `do:` with actions, or `say:`.")
    return found


def _look(notation: Notation, item: Item) -> None:
    """When the rule is looked at: with every message of the user, or it is an error."""
    tree = item.take("check_time") if "check_time" in item else None
    word = notation.word(tree).lower()
    if tree is not None and (not _EVERY_MESSAGE.search(word) or _OTHER_TIME.search(word)):
        why, fix = UNSUPPORTED["check_time"]
        notation.refuse("UNKNOWN_KEY", f"`check_time: {word}` cannot be carried out: {why}", tree.at, fix)


def _beside(notation: Notation, item: Item) -> Iterator[Action]:
    """The action that stands beside the name of the rule rather than in its `do`."""
    if not any(key in {*VERBS, *BLOCKS, *KINDS} for key in item.keys()):  # noqa: SIM118  (not a dict)
        return
    pairs = tuple(item.the_rest(but=[key for key in item.keys() if key in UNSUPPORTED]))  # noqa: SIM118
    yield from actions_of(notation, Mapping(pairs, item.at, len(pairs)))


def _cause(notation: Notation, item: Item) -> _Cause:
    cause = _Cause()
    words = item.take("keywords", "keyword", "words", "includes", "contains")
    cause.keywords = tuple(_words(notation, words))
    on = item.take("on", "trigger", "intent", "event")
    if isinstance(on, Mapping):
        inner = Item(notation, on)
        cause.keywords += tuple(_words(notation, inner.take("keywords", "words", "keyword")))
        cause.intent, cause.detector = inner.word("intent", "define"), inner.word("detector")
        inner.finish()
    elif isinstance(on, Sequence):
        cause.keywords += tuple(_words(notation, on))
    elif on is not None:
        _spoken_or_computed(notation, on, cause)
    for key in ("when", "if", "condition"):
        tree = item.take(key) if key in item else None
        if tree is not None:
            _spoken_or_computed(notation, tree, cause)
    return cause


def _spoken_or_computed(notation: Notation, tree: Tree, cause: _Cause) -> None:
    """A condition where it compares something, else words about what the user means."""
    words = isinstance(tree, Scalar) and isinstance(tree.value, str)
    if isinstance(tree, Scalar) and words and "{" not in tree.text and not is_computed(tree.text, notation.knows):
        cause.intent = f"{cause.intent}; {tree.text.strip()}" if cause.intent else tree.text.strip()
        return
    found = notation.condition(tree)
    if found is not None and cause.when is not None:
        found = Expression(f"({cause.when.source}) and ({found.source})", found.at)
    cause.when = found or cause.when


def _words(notation: Notation, tree: Tree | None) -> Iterator[str]:
    for each in mappings(tree):
        text = notation.text(each)
        for sign in "，、;；":
            text = text.replace(sign, ",")
        yield from (word.strip() for word in text.split(",") if word.strip())


def _policy(notation: Notation, tree: Tree | None) -> After | None:
    """What follows: a policy's word, or ``goto GOAL``."""
    if isinstance(tree, Scalar) and tree.value is None:
        return After()
    if isinstance(tree, Mapping) and list(tree.keys()) == ["goto"]:
        return After(policy="goto", target=notation.word(tree.pairs[0][1]), at=tree.at)
    if not isinstance(tree, Scalar):
        return None
    word = tree.text.strip()
    if word.startswith("goto "):
        return After(policy="goto", target=word.removeprefix("goto ").strip(), at=tree.at)
    known = _POLICIES.get(word)
    return None if known is None else msgspec.structs.replace(known, at=tree.at)
