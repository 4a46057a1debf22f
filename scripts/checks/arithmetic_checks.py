"""Check arithmetic with answers and choices that are, or may be, texts."""

from collections.abc import Iterator

from msgspec import Struct

from scripts.checks.control_flow import Cell, ControlFlowGraph, Node
from scripts.checks.effects import Select, effect_of
from scripts.checks.type_check import ORDERS, TEXT_TYPES
from scripts.expressions.values import DATES, infer_type, number_in, shorten
from scripts.model.actions import outputs_of
from scripts.model.diagnostics import Problems
from scripts.model.variables import Output


class CountedAnswer(Struct, frozen=True):
    """An answer that is used in arithmetic, with its type if it has one; `line` is the line of the expression."""

    node: Node
    output: Output
    kind: str | None
    line: int


def check_arithmetic(layout: ControlFlowGraph, problems: Problems) -> None:
    """Add a problem for each answer that is or may be a text and is used as a number."""
    uses = _Uses(layout)
    for each in counted_answers(layout, uses):
        name, at, path = each.output.get, each.output.mark("get"), layout.path(each.node)
        if each.kind is None:
            message = (
                f"`{name}` has no type, and line {each.line} calculates with it; the answer is converted to a number"
            )
            problems.add("TYPE_MISSING", message, at, path=path)
        else:
            message = f"`{name}` is a {each.kind}, and line {each.line} calculates with it"
            fix = "Write `type: number`, or calculate with another variable."
            problems.add("TYPE_CLASH", message, at, path=path, fix=fix)
    _check_ordered_answers(layout, uses, problems)
    _check_counted_choices(layout, uses, problems)


def _check_ordered_answers(layout: ControlFlowGraph, uses: "_Uses", problems: Problems) -> None:
    """Add a note for each answer without a type that is compared with a number by size: words are not converted."""
    for node, output in _answers(layout):
        declared = layout.sight(node).declaration(output.get)
        line = uses.order(layout.cell(node, output.get))
        if line and output.kind is output.pattern is None and (declared is None or declared.kind is None):
            message = f"`{output.get}` has no type, so line {line} may compare a text such as `twenty` with a number"
            problems.add("TYPE_MISSING", message, output.mark("get"), path=layout.path(node), severity="note")


def _check_counted_choices(layout: ControlFlowGraph, uses: "_Uses", problems: Problems) -> None:
    """Add a problem for each `choose` that may store a text in a variable with which something calculates."""
    for node, pick in _choices(layout):
        name = pick.put.name
        declared = layout.sight(node).declaration(name)
        text = next((each for each in pick.options if isinstance(each.value, str)), None)
        line = uses.line(layout.cell(node, name), is_date=False)
        if text is not None and line is not None and (declared is None or declared.kind != "number"):
            message = f"`{name}` may be the text {shorten(text.value)}, and line {line} calculates with it"
            value = 1 if number_in(text.key) is None else text.key
            fix = f"Give each choice a number: `{{key: {text.key}, text: …, value: {value}}}`."
            problems.add("TYPE_CLASH", message, pick.put.at, path=layout.path(node), fix=fix)


def counted_answers(layout: ControlFlowGraph, uses: "_Uses | None" = None) -> Iterator[CountedAnswer]:
    """Yield the answers that are not certainly numbers and that some visible expression calculates with."""
    uses = uses or _Uses(layout)
    for node, output in _answers(layout):
        declared = layout.sight(node).declaration(output.get)
        kind = output.kind or (declared.kind if declared is not None else None)
        line = uses.line(layout.cell(node, output.get), is_date=kind in DATES)
        if line is not None and kind in {None, *TEXT_TYPES}:
            yield CountedAnswer(node, output, kind, line)


class _Uses:
    """The lines of expressions that calculate with variables, take their difference, or compare them with numbers."""

    def __init__(self, layout: ControlFlowGraph) -> None:
        self._numbers: dict[Cell, int] = {}
        self._differences: dict[Cell, int] = {}
        self._orders: dict[Cell, int] = {}
        digits = set(_choices_of_digits(layout))
        for node, _ in layout.bodies():
            for source in layout.sources(node):
                facts = source.compiled.facts
                sums = [
                    names
                    for names in facts.added
                    if _has_number(layout, node, names) or {layout.cell(node, name) for name in names} <= digits
                ]
                for name in facts.counted.union(*sums):
                    self._numbers.setdefault(layout.cell(node, name), source.at.line)
                for name in facts.subtracted:
                    self._differences.setdefault(layout.cell(node, name), source.at.line)
                for each in facts.comparisons:
                    if each.sign in ORDERS and infer_type(each.value) == "number":
                        self._orders.setdefault(layout.cell(node, each.name), source.at.line)

    def line(self, cell: Cell, *, is_date: bool) -> int | None:
        """Return the first line that needs the variable to be a number; the difference of two dates does not."""
        return self._numbers.get(cell) or (None if is_date else self._differences.get(cell))

    def order(self, cell: Cell) -> int | None:
        """Return the first line that compares the variable with a number by size, if none calculates with it."""
        return None if self._numbers.get(cell) else self._orders.get(cell)


def _has_number(layout: ControlFlowGraph, node: Node, names: frozenset[str]) -> bool:
    """Return whether a variable of a sum is a number by its type or initial value, so that all must be numbers."""
    found = (layout.sight(node).declaration(name) for name in names)
    return any(each is not None and (each.kind or infer_type(each.value)) == "number" for each in found)


def _choices_of_digits(layout: ControlFlowGraph) -> Iterator[Cell]:
    """Yield the variables that store a choice whose values are texts of digits: their sum would be "12", not 3."""
    for node, output in _answers(layout):
        if output.kind == "choice" and output.choices and None not in map(number_in, output.choices):
            yield layout.cell(node, output.get)
    for node, pick in _choices(layout):
        texts = [each.value for each in pick.options if isinstance(each.value, str)]
        if texts and None not in map(number_in, texts):
            yield layout.cell(node, pick.put.name)


def _answers(layout: ControlFlowGraph) -> Iterator[tuple[Node, Output]]:
    """Yield the values that actions ask for, except those of records."""
    for node, action in layout.placed_actions():
        yield from ((node, item) for item in outputs_of(action) if isinstance(item, Output))


def _choices(layout: ControlFlowGraph) -> Iterator[tuple[Node, Select]]:
    """Yield the closed choices that actions offer."""
    for node, action in layout.placed_actions():
        pick = effect_of(action).body
        if isinstance(pick, Select) and pick.word == "choice":
            yield node, pick
