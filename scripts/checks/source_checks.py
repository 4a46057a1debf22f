"""Check a text or expression by itself: its syntax, its functions and places, and what looks like another kind."""

from collections.abc import Callable, Iterable, Iterator

import regex

from scripts.expressions.expression_fixes import expression_fix, function_fix, method_fix, template_fix, unclosed_fix
from scripts.expressions.sandbox import ExpressionInvalid
from scripts.expressions.suggestions import suggest
from scripts.model.actions import Action, Add, Call, CallTool, Emit, Set
from scripts.model.base import Expression, Location, Template
from scripts.model.diagnostics import Fault, Severity
from scripts.model.script import Phase

_MEMBERS = r"(?:\.[^\W\d]\w*|\[\d+\])*"
_NAME_FIRST = rf"\s*(?P<inner>(?P<name>[^\W\d]\w*){_MEMBERS}(?:\s*(?:\|\|?|\?\?|\bor\b|[-+*/])[^{{}}｛｝\n]+)?)\s*"
"""A name, perhaps with a member, a filter or an operator: ``name``, ``item.text``, ``name | upper``, ``age + 1``."""
_SINGLE_BRACES = regex.compile(rf"(?<!\{{)\$?\{{{_NAME_FIRST}\}}{{1,2}}(?!\}})|｛+{_NAME_FIRST}｝+")
_OPERATOR = r"(?:\s*(?:[<>=!]=|[+*<>])\s*|\s+[-/]\s+)"
_LIKE_EXPRESSION = regex.compile(rf'"(\w+(?:{_OPERATOR}\w+)*)"')  # a literal, as expressions spell it


def syntax_fault(source: Template | Expression) -> Fault | None:
    """Return why a text or expression cannot be compiled, if so."""
    if isinstance(source, Expression) and not source.source.strip():
        return Fault("EXPRESSION_INVALID", "the expression is empty", source.at)
    try:
        _ = source.compiled
    except ExpressionInvalid as error:
        unclosed = unclosed_fix(source.source) if isinstance(source, Template) else ""
        find_fix = template_fix if isinstance(source, Template) else expression_fix
        fix = unclosed or find_fix(source.source, str(error))
        message = "a part in braces is not closed" if unclosed else str(error)
        return Fault(_code(source), message, source.line_at(error.line), fix)
    return None


def function_faults(source: Template | Expression) -> Iterator[Fault]:
    """Report filters, tests, functions and methods that do not exist; no variable can be called."""
    facts = source.compiled.facts
    for message, line in facts.unavailable:
        yield Fault(_code(source), message, source.line_at(line), template_fix(source.source, message))
    for name, line in facts.called.items():
        message, fix = f"there is no function `{name}`", function_fix(name)
        yield Fault("MEMBER_UNKNOWN", message, source.line_at(line), fix, "warning")
    for name, line in facts.methods:
        message = f"no value has the member `{name}`"
        yield Fault("MEMBER_UNKNOWN", message, source.line_at(line), method_fix(name))


def duration_faults(source: Template | Expression) -> Iterator[Fault]:
    """Report durations that a source stores or shows, which fails the turn."""
    for line in source.compiled.facts.durations:
        message = "a duration can only be added to a date or subtracted from one"
        yield Fault("TYPE_CLASH", message, source.line_at(line), "Write e.g. `now + hours(3)`.", "error")


def member_faults(source: Template | Expression, is_given: Callable[[str], bool]) -> Iterator[Fault]:
    """Check the members of built-in values; `is_given` says whether a name refers to one."""
    for fault in source.compiled.facts.faults:
        if is_given(fault.root):
            severity: Severity | None = None if fault.is_fatal else "warning"
            yield Fault("MEMBER_UNKNOWN", fault.message, source.line_at(fault.line), fault.fix, severity)


def place_faults(source: Template | Expression, phases: Iterable[Phase]) -> Iterator[Fault]:
    """Check the phases and topics whose visits or minutes a text or expression reads."""
    for function, place, line in source.compiled.facts.places:
        known = [phase.id for phase in phases]
        if function == "visits":
            known += [f"{phase.id}/{topic.id}" for phase in phases for topic in phase.topics]
        if place not in known:
            message, at = f"`{function}`: unknown phase or topic {place}", source.line_at(line)
            yield Fault("GOTO_UNKNOWN", message, at, suggest(place, known))


def quote_faults(text: Template) -> Iterator[Fault]:
    """Report a text that ends with a quote which nothing opens."""
    written = text.source.rstrip()
    is_unit = written[-2:-1].isdigit()  # inches, seconds
    if written.endswith('"') and written.count('"') % 2 and not is_unit and len(written) > 1:
        fix = "Write plain quotes at both ends." if written.startswith("“") else ""
        yield Fault("QUOTE_UNPAIRED", 'a text ends with ", and nothing opens this quote', text.at, fix)


def single_braces(text: Template) -> Iterator[tuple[str, str, Location, str]]:
    """Yield what looks like a placeholder of an older format: its name, its text, its location and the fix."""
    for match in _SINGLE_BRACES.finditer(text.source):
        inner = regex.sub(r"\|\||\?\?", "or", match["inner"].strip())
        at = text.at.below(text.source.count("\n", 0, match.start()))
        yield match["name"], match[0], at, f"Write {{{{ {inner} }}}}."


def texts_like_expressions(action: Action) -> Iterator[tuple[str, str, Location]]:
    """Yield texts that an action gives and that look like an expression: what gets them, the text and its location."""
    for name, value in _values_of(action):
        if (found := _LIKE_EXPRESSION.fullmatch(value.source)) is not None:
            yield name, found[1], value.at


def _values_of(action: Action) -> Iterable[tuple[str, Template | Expression]]:
    """Return the values that an action gives to variables, parameters or data, by name."""
    match action:
        case Set():
            return action.assignments.items()
        case Add():
            return action.additions.items()
        case Call():
            return action.input.items()
        case CallTool():
            return action.given.items()
        case Emit():
            return action.signal.data.items()
        case _:
            return ()


def _code(source: Template | Expression) -> str:
    return "TEMPLATE_INVALID" if isinstance(source, Template) else "EXPRESSION_INVALID"
