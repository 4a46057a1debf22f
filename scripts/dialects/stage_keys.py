"""How the stage form is read: key by key, generously, with a word on everything that was taken for something else."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from scripts.dialects.conditions import is_computed, to_condition
from scripts.dialects.placeholders import odd_placeholders, to_template, to_text_expression
from scripts.dialects.stage_names import AtHand, Names, bare, is_name, node_id, refer, variable_name
from scripts.dialects.stage_words import UNSUPPORTED
from scripts.expressions import compile_expression
from scripts.nodes import Expression, Location, Template
from scripts.reader import Reader, literal
from scripts.sandbox import ExpressionInvalid
from scripts.source import Mapping, Scalar, Sequence, Tree, plain_value
from scripts.suggest import suggest
from scripts.unknown_keys import is_passed_over, meant_key
from scripts.values import Value, ValueRefused, bounded, number_in, shorten

NEVER = "false"
_TEXT_IN = ("text", "content", "say", "value")


class Notation:
    """What a file of this form is read with: where problems go, what its variables are, and the loops around."""

    def __init__(self, reader: Reader, names: Names) -> None:
        self.reader = reader
        self.names = names
        self.loops: list[AtHand] = []

    def id(self, written: str) -> str:
        """The id of what is called so."""
        return node_id(written)

    def slip(self, code: str, message: str, at: Location, fix: str = "") -> None:
        """Something that was understood though it is not as it should be: a warning, but in strict mode an error."""
        self.reader.add(code, message, at, fix, severity="warning" if self.reader.lenient else None)

    def refuse(self, code: str, message: str, at: Location, fix: str = "") -> None:
        """Record an error: without what stands here the conversation would be another one."""
        self.reader.add(code, message, at, fix, severity="error")

    def left_over(self, key: Scalar, value: Tree, known: Collection[str]) -> None:
        """Record a key that means nothing where it stands: a warning for a note, an error for anything else."""
        if key.text in UNSUPPORTED:
            why, fix = UNSUPPORTED[key.text]
            self.refuse("UNKNOWN_KEY", f"`{key.text}` cannot be carried out: {why}", key.at, fix)
            return
        tell = self.slip if is_passed_over(key.text, value, known) else self.refuse
        meant = meant_key(key.text, known)
        fix = f"Did you mean `{meant}`?" if meant not in {"", key.text} else suggest(key.text, list(known))
        tell("UNKNOWN_KEY", f"`{key.text}` means nothing here", key.at, fix)

    @contextmanager
    def each(self, loop: AtHand) -> Iterator[None]:
        """Within the actions of a loop."""
        self.loops.append(loop)
        yield
        self.loops.pop()

    def refer(self, name: str) -> str:
        """The expression that reads what a placeholder names."""
        return refer(self.names, self.loops, name)

    def knows(self, word: str) -> bool:
        """Whether a bare word is a variable of the script."""
        return word in self.names.known or any(word in {loop.written, loop.name} for loop in self.loops)

    # -- texts ------------------------------------------------------------------------------------------------------

    def text(self, tree: Tree) -> str:
        """A text, whatever it was written as."""
        match tree:
            case Scalar():
                return "" if tree.value is None else tree.text
            case Sequence():
                self.slip("TYPE_MISMATCH", "expected a text, found a list; its items become its lines", tree.at)
                return "\n".join(self.text(each) for each in tree.items)
            case Mapping():
                return self._text_of_mapping(tree)

    def _text_of_mapping(self, tree: Mapping) -> str:
        placeholder = braced(tree)
        if placeholder is not None:
            fix = f'Put quotes around it: "{placeholder}".'
            self.slip("TYPE_MISMATCH", "a text that begins with a brace needs quotes", tree.at, fix)
            return placeholder
        inner = next((value for name in _TEXT_IN if (value := tree.get(name)) is not None), None)
        if inner is not None and len(tree.pairs) == 1:
            return self.text(inner)
        self.slip(
            "TYPE_MISMATCH", "expected a text, found a mapping", tree.at, "Put quotes around a text with a colon."
        )
        return "\n".join(f"{key.text}: {self.text(value)}" for key, value in tree.pairs)

    def word(self, tree: Tree | None) -> str:
        """A text in one piece, such as a name."""
        return "" if tree is None else self.text(tree).strip()

    def template(self, tree: Tree) -> Template:
        """A text with placeholders."""
        written, at = self.text(tree), content_at(tree)
        for name, offset in odd_placeholders(written):
            line = written.count("\n", 0, offset)
            where = Location(at.line + line, 1 if line else at.column, at.file)
            self.reader.add("PLACEHOLDER_INVALID", f"{{{name}}} is no variable's name", where)
        return Template(to_template(written, self.refer), at)

    def templates(self, tree: Tree) -> tuple[Template, ...]:
        """Texts with placeholders, or the one."""
        return tuple(self.template(each) for each in (tree.items if isinstance(tree, Sequence) else (tree,)))

    # -- names ------------------------------------------------------------------------------------------------------

    def variable(self, tree: Tree) -> str:
        """The name of a variable."""
        written = self.word(tree)
        name = variable_name(written)
        if name != bare(written):
            message = f"{shorten(written)} is no name for a variable; it is called `{name}`"
            self.slip("VARIABLE_NAME_INVALID", message, tree.at)
        return name

    def variables(self, tree: Tree | None) -> list[str]:
        """Names of variables: a list of them, or texts with commas between."""
        match tree:
            case None:
                return []
            case Sequence():
                return [name for each in tree.items for name in self.variables(each)]
            case Mapping():
                return [self.variable(key) for key, _ in tree.pairs]
            case Scalar():
                parts = re.split(r"[,，、;；]", tree.text)
                found = [Scalar(part.strip(), False, tree.at, tree.content_line) for part in parts if part.strip()]
                return [self.variable(each) for each in found]

    # -- conditions and values --------------------------------------------------------------------------------------

    def condition(self, tree: Tree | None) -> Expression | None:
        """A condition; one that cannot be understood is an error."""
        if tree is None or (isinstance(tree, Scalar) and not tree.text.strip()):
            return None
        if isinstance(tree, Scalar) and not isinstance(tree.value, str):
            return Expression(literal(tree.value), tree.at)
        if isinstance(tree, Sequence):
            parts = [part for each in tree.items if (part := self.condition(each)) is not None]
            return Expression(" and ".join(f"({part.source})" for part in parts), tree.at) if parts else None
        written = tree.text if isinstance(tree, Scalar) else braced(tree) or ""
        return self.computed(written, content_at(tree))

    def computed(self, written: str, at: Location) -> Expression:
        """The expression of a condition or formula."""
        try:
            source = to_condition(written, self.refer, self.knows)
            compile_expression(source)
        except (ValueError, ExpressionInvalid) as error:
            why = str(error) or "it is empty"
            self.refuse("EXPRESSION_INVALID", f"the condition {shorten(written)} cannot be understood: {why}", at)
            return Expression(NEVER, at)
        return Expression(source, at)

    def given(self, tree: Tree) -> Expression:
        """A value to be assigned or handed over: worked out, a text with placeholders, or as it stands."""
        if isinstance(tree, Mapping) and (placeholder := braced(tree)) is not None:
            return Expression(to_text_expression(placeholder, self.refer), tree.at)
        if isinstance(tree, Scalar) and isinstance(tree.value, str):
            if is_computed(tree.text, self.knows):
                return self.computed(tree.text, content_at(tree))
            return Expression(to_text_expression(tree.text, self.refer), content_at(tree))
        return Expression(literal(self.value(tree)), tree.at)

    def value(self, tree: Tree | None) -> Value:
        """A plain value."""
        if tree is None:
            return None
        try:
            return bounded(plain_value(tree))
        except ValueRefused as refused:
            self.refuse("CONSTRAINT_VIOLATION", str(refused), tree.at)
            return None

    # -- numbers and truths -----------------------------------------------------------------------------------------

    def number(self, tree: Tree | None, least: int, most: int) -> int | None:
        """A whole number within limits, also where it is written as a text."""
        if tree is None or (isinstance(tree, Scalar) and tree.value is None):
            return None
        found = number_in(tree.text) if isinstance(tree, Scalar) else None
        if found is None:
            self.refuse("TYPE_MISMATCH", "expected a whole number", tree.at)
            return None
        within = max(least, min(most, int(found)))
        if within != found:
            self.slip("CONSTRAINT_VIOLATION", f"{found} is not within {least}–{most}; {within} is taken", tree.at)
        return within

    def truth(self, tree: Tree | None) -> bool | None:
        """Yes or no, in the words people write."""
        if not isinstance(tree, Scalar) or tree.value is None:
            return None
        word = tree.text.strip().lower()
        if word in {"true", "yes", "y", "1", "on", "是", "必填", "必须", "需要", "真", "must", "required"}:
            return True
        if word in {"false", "no", "n", "0", "off", "否", "选填", "可选", "不需要", "假", "optional"}:
            return False
        self.refuse("TYPE_MISMATCH", f"expected true or false, found {shorten(tree.text)}", tree.at)
        return None


class Item:
    """The pairs of a mapping, taken out one by one; what is left over in the end means nothing."""

    def __init__(self, notation: Notation, tree: Mapping) -> None:
        self.tree = tree
        self.at = tree.at
        self.marks: dict[str, Location] = {}
        self._notation = notation
        self._left = {key.text: (key, value) for key, value in tree.pairs}
        self._asked: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def keys(self) -> list[str]:
        """What has not been taken yet, in the order written."""
        return list(self._left)

    def take(self, name: str, *others: str) -> Tree | None:
        """The value of the first of these keys that is there; its place becomes the mark of the first name."""
        self._asked.append(name)
        for key in (name, *others):
            if key in self._left:
                _, value = self._left.pop(key)
                self.marks[name] = value.at
                return value
        return None

    def word(self, name: str, *others: str) -> str:
        """The value of a key as a name or short text; empty where it is not there."""
        return self._notation.word(self.take(name, *others))

    def text(self, name: str, *others: str) -> str:
        """The value of a key as a text, to the letter."""
        tree = self.take(name, *others)
        return "" if tree is None else self._notation.text(tree)

    def template(self, name: str, *others: str) -> Template | None:
        """The value of a key as a text with placeholders."""
        tree = self.take(name, *others)
        return None if tree is None else self._notation.template(tree)

    def the_rest(self, but: Collection[str] = ()) -> list[tuple[Scalar, Tree]]:
        """Takes everything that is left, but for these keys."""
        return [self._left.pop(key) for key in list(self._left) if key not in but]

    def finish(self) -> None:
        """Reports what is left over."""
        for key, value in self.the_rest():
            self._notation.left_over(key, value, self._asked)


def braced(tree: Mapping) -> str | None:
    """What YAML takes for a mapping though it was meant as a placeholder: ``{name}`` without quotes."""
    if len(tree.pairs) != 1:
        return None
    key, value = tree.pairs[0]
    alone = isinstance(value, Scalar) and value.plain and not value.text and is_name(key.text)
    return f"{{{key.text}}}" if alone else None


def content_at(tree: Tree) -> Location:
    """Where a text itself begins: below the sign of a block."""
    if not isinstance(tree, Scalar) or tree.content_line == tree.at.line:
        return tree.at
    return Location(tree.content_line, 1, tree.at.file)


def mappings(tree: Tree | None) -> tuple[Tree, ...]:
    """The items of a list; one alone needs no dash."""
    if tree is None or (isinstance(tree, Scalar) and tree.value is None):
        return ()
    return tree.items if isinstance(tree, Sequence) else (tree,)
