"""Read a YAML tree into the types of the model, some of which are not written as their annotations say."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scripts.expressions.suggestions import suggest
from scripts.expressions.values import literal, shorten
from scripts.model import actions
from scripts.model.base import Expression, Reference, Template, Variable
from scripts.model.moments import Clock, DateValue, Duration, parse_clock, parse_duration, parse_until
from scripts.model.script import After, Trigger
from scripts.yaml.grammar import POLICIES, Continuation, policy_words
from scripts.yaml.key_fixes import QUOTES
from scripts.yaml.parser import Mapping, Scalar, Tree, is_empty, with_value, word
from scripts.yaml.parser import Sequence as SequenceTree
from scripts.yaml.struct_reader import TRUTHS, StructReader

_LOOP = re.compile(r"(?P<items>.+?)\s+as\s+(?P<name>\S+)", re.DOTALL)


class Reader(StructReader):
    """Reads the trees of one file into the types of the model."""

    def _template(self, tree: Tree) -> Any:
        if isinstance(tree, Scalar) and tree.value is not None:
            return Template(tree.text, tree.content_at)
        if isinstance(tree, Scalar):
            return Template("", tree.at)
        fix = ""
        if isinstance(tree, Mapping):
            fix = 'Put quotes around a text that starts with {…}: "{{ name }} …".'
            if tree.pairs and not is_empty(tree.pairs[0][1]):
                fix = "Write the text itself, and other keys beside this one, not in it."
        raise self.mismatch(tree, "a text", fix)

    def _expression(self, tree: Tree) -> Any:
        if isinstance(tree, Scalar) and isinstance(tree.value, str):
            if self._language == "1" and tree.text.startswith("="):
                raise self.mismatch(tree, "an expression without `=`", "Remove the `=`.")
            return Expression(tree.text, tree.content_at)
        if isinstance(tree, Mapping) and tree.pairs and all(is_empty(value) for _, value in tree.pairs):
            raise self.mismatch(tree, "an expression", "Write it without { }.")
        value = self._value(tree)
        if isinstance(value, dict) and {"variable", "operator", "value"} == value.keys():
            fix = f"Write `{value['variable']} {value['operator']} {literal(value['value'])}`."
            raise self.mismatch(tree, "an expression", fix)
        return Expression(literal(value), tree.at)

    def _name(self, tree: Tree, kind: type[Reference | Variable]) -> Any:
        return kind(self._any(tree, str), tree.at)

    def _policy_or_goto(self, tree: Tree, kind: type[Continuation]) -> Any:
        """Read a policy: one of the words, ``goto phase/topic`` or ``{goto: phase/topic}``."""
        if isinstance(tree, Mapping) and list(tree.keys()) == ["goto"]:
            ((_, target),) = tree.pairs
            return kind(policy="goto", target=self._any(target, str), at=target.at)
        if isinstance(tree, Scalar) and tree.text.startswith("goto "):
            return kind(policy="goto", target=tree.text.removeprefix("goto ").strip(), at=tree.at)
        return kind(policy=self._literal(tree, (*policy_words(kind), "goto phase/topic")), at=tree.at)

    def _into(self, tree: Tree) -> Any:
        """Read the variable that stores a whole result, or the field for each variable."""
        if isinstance(tree, Mapping):
            variables = self._mapping(tree, str)
            return actions.Into(variables=variables, at=tree.at, marks={key.text: key.at for key, _ in tree.pairs})
        return actions.Into(variables={self._any(tree, str): ""}, at=tree.at)

    def _acknowledgement(self, tree: Tree) -> Any:
        """Read whether the session waits after a message, or the reply that it suggests then."""
        if isinstance(tree, Scalar) and isinstance(tree.value, bool):
            return actions.Acknowledgement(at=tree.at) if tree.value else None
        if isinstance(tree, Scalar) and tree.plain and tree.text in TRUTHS:  # `no` is a text in YAML 1.2
            fix = f'Write `acknowledge: {literal(TRUTHS[tree.text])}`, or `acknowledge: "{tree.text}"` for this button.'
            self.add("VALUE_AMBIGUOUS", f"`acknowledge: {tree.text}` is a button with this text", tree.at, fix)
        return actions.Acknowledgement(text=self._template(tree), at=tree.at)

    def _if_known(self, tree: Tree) -> Any:
        """Read a word, or a mapping with the text that confirms what is known."""
        if isinstance(tree, Mapping) and list(tree.keys()) == ["confirm"]:
            return actions.IfKnown(confirm=self._template(tree.pairs[0][1]), policy="confirm", at=tree.at)
        return actions.IfKnown(policy=self._literal(tree, ("ask", "skip", "{confirm: TEXT}")), at=tree.at)

    def _policy(self, tree: Tree, kind: type[Struct]) -> Any:
        """Read a policy: only where to continue, or a mapping with a text or actions as well."""
        if isinstance(tree, Mapping) and list(tree.keys()) != ["goto"]:
            return self._struct(tree, kind)
        return kind(then=self._policy_or_goto(tree, POLICIES[kind]), at=tree.at)

    def _trigger(self, tree: Tree) -> Trigger:
        if isinstance(tree, Scalar) and tree.value is not None:
            return Trigger(intent=tree.text, at=tree.at)
        trigger: Trigger
        if isinstance(tree, SequenceTree):
            trigger = Trigger(keywords=self._tuple(tree, str), at=tree.at)
        else:
            trigger = self._struct(tree, Trigger)
        is_older = self._language == "older" and "match" not in trigger.marks
        return replace(trigger, match="anywhere") if is_older else trigger

    def _loop(self, tree: Tree) -> Any:
        text = tree.text.strip() if isinstance(tree, Scalar) else ""
        match = _LOOP.fullmatch(text)
        if match is None or (self._language == "1" and match["items"].startswith("=")):
            raise self.mismatch(tree, "`LIST as NAME`, without `=`", "Write e.g. `foreach: symptoms as symptom`.")
        return actions.Loop(items=Expression(match["items"], tree.at), name=match["name"], at=tree.at)

    def _choice(self, tree: Tree) -> Any:
        """Read a key, ``{key: text}``, a choice with its keys, or the choices of a list."""
        if isinstance(tree, Scalar) and tree.value is not None:
            return actions.ChoiceItem(key=tree.text, text=Template(tree.text, tree.at), at=tree.at)
        if not isinstance(tree, Mapping):
            return self._struct(tree, actions.ChoiceItem)
        keys = list(tree.keys())
        if "each" in keys:
            return self._struct(with_value(tree, "each", _without_mark), actions.ListedChoices)
        is_short = len(keys) == 1 if self._language == "1" else bool(keys) and not {"key", "text"} & set(keys)
        if self._language == "1" and keys:
            self._refuse_odd(tree)
        if not is_short:
            return self._struct(tree, actions.ChoiceItem)
        key, text = tree.pairs[0]  # beside it, `value` and `actions` are allowed
        label = Scalar(key.text, False, key.at)
        spelled = ((word("key", key), label), (word("text", key), text), *tree.pairs[1:])
        return self._struct(Mapping(spelled, tree.at), actions.ChoiceItem)

    def _refuse_odd(self, tree: Mapping) -> None:
        """Refuse a pair `key: text` with keys beside it, or a key of a choice with a dash."""
        fields = self._fields(actions.ChoiceItem)
        (first, text), *others = tree.pairs
        if not others and first.text in fields and not isinstance(text, Scalar):
            fix = f"Write `{first.text}` without a dash, below the `key` and `text` of its choice."
            raise self._invalid("UNKNOWN_KEY", f"`{first.text}` is a key of a choice, not a choice", first.at, fix)
        is_field = first.text in fields or bool(suggest(first.text, list(fields), ""))
        if not others or is_field or not isinstance(text, Scalar):
            return
        beside, other = others[0]
        fix = f"Write `key: {first.text}` and `text: {shorten(text.text).strip(QUOTES)}` beside `{beside.text}`."
        if beside.text not in fields and isinstance(other, Scalar):
            fix = f"Start each choice with its own dash: `- {beside.text}: {shorten(other.text).strip(QUOTES)}`."
        raise self._invalid("UNKNOWN_KEY", f"a choice `key: text` has no `{beside.text}` beside it", beside.at, fix)

    def _moment_part(self, tree: Tree, kind: type) -> Any:
        """Read a duration, a time of day or a date."""
        code, parse, expected = _MOMENTS[kind]
        text = tree.text.strip() if isinstance(tree, Scalar) else ""
        if (part := parse(text)) is not None:
            return part
        found = shorten(text) if isinstance(tree, Scalar) else "a mapping or list"
        raise self._invalid(code, f"expected {expected}, found {found}", tree.at)


_MOMENTS: dict[type, tuple[str, Callable[[str], Any], str]] = {
    Duration: ("DURATION_INVALID", parse_duration, "a duration such as 3 days"),
    Clock: ("CLOCK_INVALID", parse_clock, "a time such as 9:00"),
    DateValue: ("DATE_INVALID", parse_until, "a date such as 2026-01-31, or `=NAME`"),
}
"""For these types: the code of a problem, the function that parses a text, and what is expected."""
Reader.special = {
    Template: Reader._template,
    Expression: Reader._expression,
    actions.Into: Reader._into,
    actions.Acknowledgement: Reader._acknowledgement,
    actions.IfKnown: Reader._if_known,
    actions.Loop: Reader._loop,
    actions.ChoiceItem: Reader._choice,
    Trigger: Reader._trigger,
    **{kind: partial(Reader._policy_or_goto, kind=kind) for kind in (After, *POLICIES.values())},
    **{kind: partial(Reader._policy, kind=kind) for kind in POLICIES},
    **{kind: partial(Reader._name, kind=kind) for kind in (Reference, Variable)},
    **{kind: partial(Reader._moment_part, kind=kind) for kind in _MOMENTS},
}


def _without_mark(tree: Tree) -> Tree:
    """Return the list of listed choices without the `=` that may be written before it."""
    return replace(tree, text=tree.text.removeprefix("=")) if isinstance(tree, Scalar) else tree
