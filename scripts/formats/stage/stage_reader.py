"""Read the stage format key by key, tolerantly, with a problem for everything that is not written correctly."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from scripts.expressions.expressions import compile_expression
from scripts.expressions.suggestions import suggest
from scripts.expressions.values import Value, ValueRefused, literal, number_in, shorten, to_value
from scripts.formats.condition_fixes import condition_fix, name_fix
from scripts.formats.condition_trees import condition_text
from scripts.formats.conditions import is_ambiguous, is_computed, report_joined_words, to_condition
from scripts.formats.placeholders import report_calculated, report_placeholders, to_template, to_text_expression
from scripts.formats.stage.keywords import UNSUPPORTED
from scripts.formats.stage.names import BRACES, KnownNames, Names, bare, is_name, refer, variable_name
from scripts.formats.words import TRUTHS
from scripts.model.base import Expression, Location, Template
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, as_items, is_null, pairs_of, plain_value, text_in
from scripts.yaml.unknown_keys import SWITCH_FIX, intended_key, is_ignorable, is_switched_off

NEVER = "false"
_TEXT_IN = ("text", "content", "say", "value")


class StageReader:
    """The state of reading a file of this format: problems, variables, and enclosing loops."""

    def __init__(self, reader: Reader, names: Names) -> None:
        self.reader = reader
        self.slip, self.refuse = reader.slip, reader.refuse
        self.names = names
        self.loops: list[KnownNames] = []

    def lacks(self, message: str, at: Location, fix: str) -> None:
        """Refuse a part in which something is missing."""
        self.refuse("REQUIRED_FIELD_MISSING", message, at, fix)

    def report_unknown(self, key: Scalar, value: Tree, known: Collection[str]) -> None:
        """Record an unknown key: a warning for a comment, an error for anything else."""
        if key.text in UNSUPPORTED:
            why, fix = UNSUPPORTED[key.text]
            self.refuse("UNKNOWN_KEY", f"`{key.text}` is not supported: {why}", key.at, fix)
            return
        tell = self.slip if is_ignorable(key.text, value, known) else self.refuse
        intended = intended_key(key.text, known)
        fix = f"Did you mean `{intended}`?" if intended not in {"", key.text} else suggest(key.text, list(known))
        fix = SWITCH_FIX if is_switched_off(key.text, value) else fix
        tell("UNKNOWN_KEY", f"unknown key `{key.text}`", key.at, fix)

    @contextmanager
    def each(self, loop: KnownNames) -> Iterator[None]:
        """Read the actions of a loop with its item as a name."""
        self.loops.append(loop)
        yield
        self.loops.pop()

    def refer(self, name: str) -> str:
        """Return the expression of a placeholder."""
        return refer(self.names, self.loops, name)

    def knows(self, word: str) -> bool:
        """Return whether a bare word is a variable of the script."""
        return word in self.names.known or any(word in {loop.written, loop.name} for loop in self.loops)

    # -- texts ------------------------------------------------------------------------------------------------------

    def text(self, tree: Tree) -> str:
        """Read a text in any spelling."""
        match tree:
            case Scalar():
                return "" if tree.value is None else tree.text
            case Sequence():
                self.slip("TYPE_MISMATCH", "expected a text, found a list; its items become lines", tree.at)
                return "\n".join(self.text(each) for each in tree.items)
            case Mapping():
                return self._text_of_mapping(tree)

    def _text_of_mapping(self, tree: Mapping) -> str:
        if (placeholder := placeholder_of(tree)) is not None:
            fix = f'Put quotes around it: "{placeholder}".'
            self.slip("TYPE_MISMATCH", "a text that starts with a brace needs quotes", tree.at, fix)
            return placeholder
        inner = next((value for name in _TEXT_IN if (value := tree.get(name)) is not None), None)
        if inner is not None and len(tree.pairs) == 1:
            return self.text(inner)
        fix = "Put quotes around a text with a colon."
        self.slip("TYPE_MISMATCH", "expected a text, found a mapping", tree.at, fix)
        return "\n".join(f"{key.text}: {self.text(value)}" for key, value in tree.pairs)

    def word(self, tree: Tree | None) -> str:
        """Read a text on one line, such as a name."""
        return "" if tree is None else self.text(tree).strip()

    def template(self, tree: Tree) -> Template:
        """Read a text with placeholders."""
        written, at = self.text(tree), content_at(tree)
        report_placeholders(self.reader, written, at)
        return Template(to_template(written, self.refer), at)

    def templates(self, tree: Tree) -> tuple[Template, ...]:
        """Read one or several texts with placeholders."""
        return tuple(map(self.template, as_items(tree)))

    def words(self, tree: Tree | None) -> tuple[str, ...]:
        """Read one or several texts without placeholders."""
        return tuple(map(self.word, as_items(tree) if tree is not None else ()))

    # -- names ------------------------------------------------------------------------------------------------------

    def variable(self, tree: Tree) -> str:
        """Read the name of a variable."""
        written = self.word(tree)
        name = variable_name(written)
        if name != bare(written):
            message = f"{shorten(written)} is not a valid variable name; it is renamed to `{name}`"
            self.slip("VARIABLE_NAME_INVALID", message, tree.at)
        return name

    def variables(self, tree: Tree | None) -> list[str]:
        """Read names of variables: a list, or texts separated by commas."""
        match tree:
            case None:
                return []
            case Sequence():
                return [name for each in tree.items for name in self.variables(each)]
            case Mapping():
                named = next((value for key, value in tree.pairs if key.text in {"get", "var", "name"}), None)
                return [self.variable(key) for key, _ in tree.pairs] if named is None else self.variables(named)
            case Scalar():
                return [self.variable(each) for each in parts_of(tree)]

    # -- conditions and values --------------------------------------------------------------------------------------

    def condition(self, tree: Tree | None) -> Expression | None:
        """Read a condition; an invalid one is an error."""
        if tree is None or (isinstance(tree, Scalar) and not tree.text.strip()):
            return None
        if isinstance(tree, Scalar) and not isinstance(tree.value, str):
            return Expression(literal(tree.value), tree.at)
        if isinstance(tree, Sequence):
            parts = [part for each in tree.items if (part := self.condition(each)) is not None]
            return Expression(" and ".join(f"({part.source})" for part in parts), tree.at) if parts else None
        spelled = condition_text(tree)
        written = spelled.text if isinstance(spelled, Scalar) else placeholder_of(tree)
        if written is None:
            fix = 'Write a text, such as "{age} >= 18".'
            self.refuse("TYPE_MISMATCH", "expected a condition, found a mapping", tree.at, fix)
            return Expression(NEVER, tree.at)
        return self.formula(written, content_at(tree))

    def formula(self, written: str, at: Location) -> Expression:
        """Return the expression of a condition or formula."""
        try:
            source = to_condition(written, self.refer, self.knows)
            compile_expression(source)
        except ValueError as error:
            why = str(error) or "it is empty"
        else:
            why = "there is no such variable" if name_fix(written, self.knows) else ""
        if why:
            message = f"invalid condition {shorten(written)}: {why}"
            self.refuse("EXPRESSION_INVALID", message, at, condition_fix(written))
            return Expression(NEVER, at)
        report_joined_words(self.reader, written, self.knows, at)
        return Expression(source, at)

    def value_expression(self, tree: Tree) -> Expression:
        """Read a value of an assignment or parameter: an expression, a text with placeholders, or a plain value."""
        if (placeholder := placeholder_of(tree)) is not None:
            return Expression(to_text_expression(placeholder, self.refer), tree.at)
        if isinstance(tree, Scalar) and isinstance(tree.value, str):
            calculates = is_computed(tree.text, self.knows)
            is_spaced = " - " in tree.text
            is_of_numbers = is_spaced and self.names.numbers.issuperset(map(bare, BRACES.findall(tree.text)))
            if is_ambiguous(tree.text) and not is_of_numbers:
                calculates = calculates and not is_spaced
                message = f"{shorten(tree.text)} is read as a {'calculation' if calculates else 'text'}"
                self.reader.add("VALUE_AMBIGUOUS", message, content_at(tree))
            if calculates:
                return self.formula(tree.text, content_at(tree))
            report_placeholders(self.reader, tree.text, content_at(tree))
            formula = tree.text.lstrip("= ")
            fix = f"Write `{formula}`." if is_computed(formula, self.knows) or self.knows(formula) else ""
            report_calculated(self.reader, tree.text, content_at(tree), fix)
            return Expression(to_text_expression(tree.text, self.refer), content_at(tree))
        self.value(tree)  # reports one that is too large
        if isinstance(tree, Sequence):
            items = ", ".join(self.value_expression(each).source for each in tree.items)
            return Expression(f"[{items}]", tree.at)
        if isinstance(tree, Mapping):
            pairs = (f"{literal(key.text)}: {self.value_expression(each).source}" for key, each in tree.pairs)
            return Expression(f"{{{', '.join(pairs)}}}", tree.at)
        return Expression(literal(self.value(tree)), tree.at)

    def value(self, tree: Tree | None) -> Value:
        """Read a plain value."""
        if tree is None:
            return None
        try:
            return to_value(plain_value(tree))
        except ValueRefused as refused:
            self.refuse("CONSTRAINT_VIOLATION", str(refused), tree.at)
            return None

    # -- numbers and truths -----------------------------------------------------------------------------------------

    def number(self, tree: Tree | None, least: int, most: int) -> int | None:
        """Read a whole number within limits, also if it is written as a text."""
        if tree is None or is_null(tree):
            return None
        found = number_in(tree.text) if isinstance(tree, Scalar) else None
        if found is None:
            self.refuse("TYPE_MISMATCH", "expected a whole number", tree.at, "Write a number in digits, such as 3.")
            return None
        within = max(least, min(most, int(found)))
        if within != found:
            self.slip("CONSTRAINT_VIOLATION", f"{found} is not in the range {least}–{most}; {within} is used", tree.at)
        return within

    def truth(self, tree: Tree | None) -> bool | None:
        """Read a boolean, in any common spelling."""
        if tree is None or is_null(tree):
            return None
        written = text_in(tree)
        word = written.strip().lower()
        if word in TRUTHS:
            return TRUTHS[word]
        found = shorten(written) if written else "a list or mapping"
        self.refuse("TYPE_MISMATCH", f"expected true or false, found {found}", tree.at)
        return None


class Item:
    """The pairs of a mapping, which are consumed one by one; remaining pairs are unknown keys."""

    def __init__(self, notation: StageReader, tree: Mapping) -> None:
        self.tree = tree
        self.at = tree.at
        self.marks: dict[str, Location] = {}
        self._notation = notation
        self._left = {key.text: (key, value) for key, value in tree.pairs}
        self._read_names: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def keys_in(self, names: Collection[str]) -> list[str]:
        """Return the remaining keys that are among these, in the order written."""
        return [key for key in self._left if key in names]

    def keys(self) -> list[str]:
        """Return the remaining keys in the order written."""
        return list(self._left)

    def take(self, name: str, *others: str) -> Tree | None:
        """Consume the first of these keys that exists; its location becomes the mark of the first name."""
        self._read_names.append(name)
        for key in (name, *others):
            if key in self._left:
                _, value = self._left.pop(key)
                self.marks[name] = value.at
                return value
        return None

    def word(self, name: str, *others: str) -> str:
        """Consume a key as a name or short text; empty if it does not exist."""
        return self._notation.word(self.take(name, *others))

    def text(self, name: str, *others: str) -> str:
        """Consume a key as an unchanged text."""
        tree = self.take(name, *others)
        return "" if tree is None else self._notation.text(tree)

    def template(self, name: str, *others: str) -> Template | None:
        """Consume a key as a text with placeholders."""
        tree = self.take(name, *others)
        return None if tree is None else self._notation.template(tree)

    def the_rest(self, but: Collection[str] = ()) -> list[tuple[Scalar, Tree]]:
        """Consume all remaining pairs except these keys."""
        return [self._left.pop(key) for key in list(self._left) if key not in but]

    def take_pairs(self, keys: Collection[str]) -> Mapping | None:
        """Consume the pairs with these keys as a mapping of their own; None if there is none."""
        pairs = tuple(self._left[key] for key in self._left if key in keys)
        for key, _ in pairs:
            self.take(key.text)
        return Mapping(pairs, self.at) if pairs else None

    def finish(self) -> None:
        """Report the remaining pairs."""
        for key, value in self.the_rest():
            self._notation.report_unknown(key, value, self._read_names)


def parts_of(tree: Scalar) -> list[Scalar]:
    """Return the names in a text with separators."""
    parts = re.split(r"[,，、;；]", tree.text)
    return [Scalar(part.strip(), False, tree.at, tree.is_block) for part in parts if part.strip()]


def placeholder_of(tree: Tree) -> str | None:
    """Return a placeholder that YAML reads as a mapping: ``{name}`` without quotes."""
    if len(pairs_of(tree)) != 1:
        return None
    ((key, value),) = pairs_of(tree)
    alone = isinstance(value, Scalar) and value.plain and not value.text and is_name(key.text)
    return f"{{{key.text}}}" if alone else None


def content_at(tree: Tree) -> Location:
    """Return the location of a text: for a block, the line below its indicator."""
    return tree.content_at if isinstance(tree, Scalar) else tree.at


def entries(tree: Tree | None) -> tuple[Tree, ...]:
    """Return the items of a list; a single item needs no dash, and null is none."""
    return () if tree is None or is_null(tree) else as_items(tree)
