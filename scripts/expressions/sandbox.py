"""The sandbox of templates and expressions: every loop, result and number has a limit.

A text may use ``{{ … }}``, ``{% if %}`` and ``{% for %}``, nothing else: without names for intermediate results, the
length of the source limits the size of the result, and each operator is checked as well.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from typing import Any

from jinja2 import Environment, Undefined, pass_context, pass_environment
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS

from scripts.expressions.members import DATE_PARTS, LOOP_PARTS, SPEAKER_PARTS, TEXT_METHODS, Speaker
from scripts.expressions.time_values import FUNCTIONS, SINCE, SPANS, TimeInvalid, TimeSpan, combine, time_span
from scripts.expressions.values import SIGNS, compare, shorten, text_of

OUTPUT_CHARS_MAX = 20_000
STEPS_MAX = 100_000  # of one rendering: loop iterations by the size of their body, items, long texts
TEXT_STEP_CHARS = 100  # characters that count as one step
NESTED_STEP_ITEMS = 10  # items within the items of a list that count as one step
NUMBER_BITS_MAX = 128
DIGITS_MAX = 300  # of a rounded number

MISSING = object()
"""The result of a lookup of a name without a value."""

_FILTERS = frozenset(
    {"abs", "capitalize", "default", "d", "dictsort", "first", "float", "int", "items", "join", "last", "length"}
    | {"count", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "round", "select"}
    | {"selectattr", "sort", "string", "title", "trim", "truncate", "unique", "upper", "wordcount"}
)
_TESTS = frozenset(
    {"defined", "undefined", "none", "number", "string", "boolean", "mapping", "sequence", "even", "odd"}
    | {"divisibleby", "lower", "upper"}
)
_COMPARING_TESTS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "lteq", "gt": "gt", "ge": "gteq", "in": "in"}


class ExpressionInvalid(ValueError):
    """A source does not compile; `line` counts from 1 within it."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


class ExpressionFailed(ValueError):
    """A compiled source cannot be evaluated; the message is for the author of the script."""


class ValuesClash(ExpressionFailed):
    """An operator or filter does not support its operands; the result has no value."""


class Meter:
    """Counts the steps of one rendering, and collects its failures; `value_of` resolves the names of the session."""

    def __init__(self, value_of: Callable[[str], object] = lambda _: MISSING) -> None:
        self._value_of = value_of
        self.steps = 0
        self.unset: dict[str, None] = {}
        self.mismatches: list[str] = []
        self.failures: dict[str, None] = {}

    def fail(self, what: str) -> "Unset":
        """Record a failure, and return a result without a value."""
        self.failures[what] = None
        return Unset(meter=self)

    def now(self) -> datetime:
        """Return the time of the turn in the session's zone. Raises TimeInvalid where there is no session."""
        now = self._value_of("now")
        if not isinstance(now, datetime):
            raise TimeInvalid("there is no current time here")
        return now

    def zone(self) -> tzinfo:
        """Return the session's zone; UTC where there is no session."""
        now = self._value_of("now")
        return (now.tzinfo if isinstance(now, datetime) else None) or UTC

    def of_place(self, name: str, place: object) -> object:
        """Call a function of a phase or topic. Raises TimeInvalid where there is no session, and for no place."""
        function = self._value_of(f"{name}()")
        if not callable(function) or not isinstance(place, str):
            raise TimeInvalid("needs the id of a phase or topic: 'phase' or 'phase/topic'")
        return function(place)

    def charge(self, steps: int) -> None:
        """Count steps. Raises ExpressionFailed above `STEPS_MAX`."""
        self.steps += steps
        if self.steps > STEPS_MAX:
            raise ExpressionFailed(f"takes more than {STEPS_MAX:,} steps")

    def weigh(self, made: Any) -> Any:
        """Count the size of a value that an operator, call or filter gets or returns, and return it."""
        if isinstance(made, str):
            self.charge(len(made) // TEXT_STEP_CHARS)
        elif isinstance(made, list | tuple | dict):
            self.charge(max(len(made), _items_within(made, {}) // NESTED_STEP_ITEMS))
        elif isinstance(made, range):
            self.charge(len(made))
        elif isinstance(made, int):
            _check_bits(made.bit_length())
        return made

    def weigh_call(self, name: str, value: Any, arguments: Iterable[Any]) -> None:
        """Count the size of what a filter or method gets. Some read a text letter by letter; those that trim search
        each letter among the given ones.
        """
        self.weigh(value)
        if isinstance(value, str) and name in {"min", "max", "sort", "unique"}:
            self.charge(len(value))
        elif isinstance(value, str) and name in {"trim", "strip"}:
            letters = sum(len(each) for each in arguments if isinstance(each, str))
            self.charge(len(value) // TEXT_STEP_CHARS * (letters // TEXT_STEP_CHARS))

    def each(self, items: Any, body: int = 1) -> Iterator[Any]:
        """Yield the items of a loop, and count the size of the loop body for each."""
        if isinstance(items, LoopContext) or not isinstance(items, Iterable):
            raise ExpressionFailed(f"cannot loop over {kind_of(items)}: it is not a list")
        for item in items:
            self.charge(body)
            yield item

    def read(self, variables: object, name: object) -> object:
        """``vars["…"]``: reads a variable whose name need not be an identifier."""
        value = variables.get(name, MISSING) if isinstance(variables, Mapping) else MISSING
        return Unset(name=str(name), meter=self) if value is MISSING else value

    def range(self, *bounds: int) -> range:
        """Return the numbers of ``range``, whose count is checked first."""
        if not all(isinstance(bound, int) for bound in bounds) or not 1 <= len(bounds) <= 3:
            raise ExpressionFailed("range needs one to three whole numbers")
        try:
            numbers = range(*bounds)
            too_many = len(numbers) > STEPS_MAX
        except (ValueError, OverflowError) as error:
            raise ExpressionFailed(f"range: {error}") from error
        if too_many:
            raise ExpressionFailed(f"range: takes more than {STEPS_MAX:,} steps")
        return numbers

    def compare(self, left: object, *rest: object) -> bool:
        """Evaluate ``a < b < c`` as pairs, all of which must be true."""
        for sign, right in zip(rest[::2], rest[1::2], strict=True):
            if not self._holds(str(sign), left, right):
                return False
            left = right
        return True

    def _holds(self, sign: str, left: object, right: object) -> bool:
        for side in (left, right):
            if isinstance(side, Unset):
                side.note()
                return False
            self.weigh(side)
        outcome = compare(sign, left, right)
        if outcome is None:
            self.mismatches.append(f"cannot compare {shorten(left)} {SIGNS[sign]} {shorten(right)}")
        return bool(outcome)

    def concat(self, *parts: object) -> str:
        """Evaluate ``a ~ b``."""
        texts = [self.weigh(to_text(part)) for part in parts]
        if sum(map(len, texts)) > OUTPUT_CHARS_MAX:
            raise ExpressionFailed(f"a text may have at most {OUTPUT_CHARS_MAX:,} characters")
        return "".join(texts)


def _items_within(value: object, known: dict[int, int]) -> int:
    """Return the number of items of a list or record, and of those in them; long texts count as several.

    A list may be in another many times, which makes the number exponential: each is counted once, in `known`.
    """
    if isinstance(value, str):
        return len(value) * NESTED_STEP_ITEMS // TEXT_STEP_CHARS
    if not isinstance(value, list | tuple | dict):
        return 0
    if id(value) not in known:
        items = (*value, *value.values()) if isinstance(value, dict) else value
        known[id(value)] = len(value) + sum(_items_within(item, known) for item in items)
    return known[id(value)]


def _check_bits(bits: int) -> None:
    if bits > NUMBER_BITS_MAX:
        raise ExpressionFailed("the number would be too large")


class Unset(Undefined):
    """A name without a value: empty as a text, false as a condition, an empty list in a loop."""

    __slots__ = ("_meter",)

    def __init__(
        self, hint: str | None = None, obj: Any = None, name: str | None = None, exc: Any = None, meter: Any = None
    ) -> None:
        super().__init__(hint, obj, name)
        self._meter = meter

    def note(self) -> None:
        """Record that the name was used."""
        if self._meter is not None and self._undefined_name is not None:
            self._meter.unset[str(self._undefined_name)] = None

    def __str__(self) -> str:
        self.note()
        return ""

    def __bool__(self) -> bool:
        self.note()
        return False

    def __len__(self) -> int:
        self.note()
        return 0

    def __iter__(self) -> Iterator[Any]:
        self.note()
        return iter(())

    def __getattr__(self, name: str) -> "Unset":
        if name[:2] == "__":
            raise AttributeError(name)
        return Unset(name=self._undefined_name, meter=self._meter)

    def __getitem__(self, key: object) -> "Unset":  # type: ignore[override]
        return Unset(name=self._undefined_name, meter=self._meter)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unset)

    def __hash__(self) -> int:
        return hash(Unset)


def to_text(value: object) -> str:
    """Convert a value to text. Raises ExpressionFailed if it is not a value."""
    if isinstance(value, Undefined):
        return str(value)
    if isinstance(value, LoopContext):
        raise ExpressionFailed("`loop` cannot be converted to text")
    try:
        return text_of(value)
    except TypeError as error:
        raise ExpressionFailed(str(error)) from error


class FromValue(str):
    """A part of a text that comes from a value. Jinja calls `str` on it, which returns it unchanged."""

    __slots__ = ()

    def __str__(self) -> str:
        return self


def _mark_value(value: object) -> FromValue:
    """Convert a value to a text that is marked as coming from a value. Raises ExpressionFailed."""
    return FromValue(value if type(value) is str else to_text(value))


class Sandbox(ImmutableSandboxedEnvironment):
    """Allows only values, safe methods of values, and operators whose results are checked first."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})
    intercepted_unops = frozenset({"-", "+"})

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(argument, int) and isinstance(obj, str | list | tuple | range):
            return obj[argument] if -len(obj) <= argument < len(obj) else Unset(name=str(argument))
        if isinstance(argument, slice) and isinstance(obj, str | list | tuple):
            return obj[argument]
        return self.getattr(obj, argument)

    def getattr(self, obj: Any, attribute: Any) -> Any:
        if isinstance(obj, Unset):
            return obj[attribute]
        if isinstance(obj, Mapping):
            unset = Unset(name=str(attribute))
            return obj.get(attribute, unset) if isinstance(attribute, str | int) else unset
        if isinstance(obj, Speaker) and attribute in SPEAKER_PARTS:
            return obj.part(attribute)
        if self.is_safe_attribute(obj, attribute, None):
            return getattr(obj, attribute)
        raise ExpressionFailed(f"{kind_of(obj)} has no member {shorten(attribute)}")

    def is_safe_attribute(self, obj: Any, attr: Any, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in TEXT_METHODS
        if isinstance(obj, date):
            return attr in DATE_PARTS and hasattr(obj, attr)
        return isinstance(obj, LoopContext) and attr in LOOP_PARTS

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        if not callable(obj) or isinstance(obj, Undefined):
            raise ExpressionFailed(f"{shorten(getattr(obj, '_undefined_name', obj))} is not a function")
        arguments = {name: value for name, value in kwargs.items() if name not in {"_loop_vars", "_block_vars"}}
        meter = _meter_of(context)
        if isinstance(text := getattr(obj, "__self__", None), str):
            meter.weigh_call(obj.__name__, text, args)
        return meter.weigh(obj(*args, **arguments))

    def call_binop(self, context: Context, sign: str, left: Any, right: Any) -> Any:
        for side in (left, right):
            if isinstance(side, Unset):
                side.note()
                return side
        meter = _meter_of(context)
        if sign in {"+", "-"} and not (isinstance(left, int | float) and isinstance(right, int | float)):
            try:
                combined = combine(sign, left, right, meter.zone)
            except TimeInvalid as invalid:
                return meter.fail(f"`{sign}`: {invalid}")
            if combined is not None:
                return combined
        _check_growth(sign, left, right)
        try:
            return meter.weigh(super().call_binop(context, sign, left, right))
        except TypeError:
            return meter.fail(f"`{sign}` does not support {kind_of(left)} and {kind_of(right)}")

    def call_unop(self, context: Context, sign: str, arg: Any) -> Any:
        try:
            return arg if isinstance(arg, Unset) else super().call_unop(context, sign, arg)
        except TypeError:
            return _meter_of(context).fail(f"`{sign}` does not support {kind_of(arg)}")


def _meter_of(context: Context) -> Meter:
    meter: Meter = context.resolve("_meter").__self__
    return meter


def kind_of(obj: object) -> str:
    """Return the kind of a value, for a message."""
    kinds = {str: "a text", list: "a list", int: "a number", float: "a number", bool: "a boolean", dict: "a record"}
    kinds |= {TimeSpan: "a duration"}
    return "a date" if isinstance(obj, date) else kinds.get(type(obj), "this value")


def _check_growth(sign: str, left: Any, right: Any) -> None:
    """Reject an operation before it builds a huge text, list or number."""
    sized = [side for side in (left, right) if isinstance(side, str | list | tuple)]
    if sign == "%" and isinstance(left, str):
        raise ExpressionFailed("% does not format texts; write {{ name }} inside the text")
    if sign == "*" and sized:
        times = next((side for side in (left, right) if isinstance(side, int)), 0)
        if len(sized[0]) * times > OUTPUT_CHARS_MAX:
            raise ExpressionFailed("the result would be too long")
    if sign == "+" and sum(map(len, sized)) > OUTPUT_CHARS_MAX:
        raise ExpressionFailed("the result would be too long")
    if isinstance(left, int) and isinstance(right, int) and sign in {"*", "**"}:
        _check_bits(left.bit_length() * abs(right) if sign == "**" else left.bit_length() + right.bit_length())


def _with_meter(
    name: str, function: Callable[..., Any], context: Context, value: Any, *args: Any, **kwargs: Any
) -> Any:
    """Wrap a Jinja filter: its input counts as steps, and its input and result are limited."""
    meter = _meter_of(context)
    arguments = (*args, *kwargs.values())
    if isinstance(value, Iterator):  # `loop`, which is no list
        value = list(meter.each(value))
    meter.weigh_call(name, value, arguments)
    most = DIGITS_MAX if name == "round" else OUTPUT_CHARS_MAX
    if any(isinstance(arg, int) and abs(arg) > most for arg in arguments):
        raise ExpressionFailed("a filter's number is too large")
    if function is FILTERS["join"] and isinstance(value, Sized):
        separator = args[0] if args else kwargs.get("d", "")
        if len(to_text(separator)) * len(value) > OUTPUT_CHARS_MAX:
            raise ExpressionFailed("the result would be too long")
    passed = getattr(function, "jinja_pass_arg", None)
    first = {"context": (context,), "eval_context": (context.eval_ctx,), "environment": (context.environment,)}
    try:
        made = function(*(first[passed.name] if passed else ()), value, *args, **kwargs)
        return meter.weigh(list(made) if isinstance(made, Iterator) else made)
    except ValuesClash as clash:
        return meter.fail(str(clash))
    except TypeError:
        return meter.fail(f"`{name}` does not support {kind_of(value)}")


def _replace(text: object, old: str, new: str) -> str:
    source = to_text(text)
    if not isinstance(old, str) or not isinstance(new, str) or not old:
        raise ExpressionFailed("replace needs the text to replace and the new text")
    if len(source) + source.count(old) * len(new) > OUTPUT_CHARS_MAX:
        raise ExpressionFailed("the result would be too long")
    return source.replace(old, new)


@pass_environment
def _sum(environment: Environment, items: Any, attribute: str | None = None, start: Any = 0) -> Any:
    """Jinja's `sum` for numbers only, because the sum of lists takes quadratic time."""
    numbers = list(items if attribute is None else map(make_attrgetter(environment, attribute), items))
    if not all(isinstance(number, int | float) for number in (start, *numbers)):
        is_clash = all(isinstance(number, int | float | str) for number in (start, *numbers))
        raise (ValuesClash if is_clash else ExpressionFailed)("sum supports numbers only")
    return sum(numbers, start)


def _time_function(name: str, context: Context, value: Any) -> Any:
    """Call a function of time, which the tree has as a filter, so that its name may also be that of a variable."""
    meter = _meter_of(context)
    if isinstance(value, Unset):
        value.note()
        return value
    try:
        if name in SPANS:
            return time_span(name, value)
        if name in SINCE:
            return SINCE[name](value, meter.now())
        return meter.of_place(name, value)
    except TimeInvalid as invalid:
        return meter.fail(f"`{name}`: {invalid}")


def _as_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    return pass_context(partial(_with_meter, name, function))


def _make_sandbox() -> Sandbox:
    sandbox = Sandbox(
        undefined=Unset, autoescape=False, optimized=False, finalize=_mark_value, keep_trailing_newline=True
    )
    sandbox.filters = {name: _as_filter(name, FILTERS[name]) for name in _FILTERS} | {
        "replace": _as_filter("replace", _replace),
        "sum": _as_filter("sum", _sum),
        **{f"{name}()": pass_context(partial(_time_function, name)) for name in FUNCTIONS},
    }
    comparing: dict[str, Any] = {name: partial(_test, sign) for name, sign in _COMPARING_TESTS.items()}
    sandbox.tests = {name: TESTS[name] for name in _TESTS} | comparing
    sandbox.globals = {}
    return sandbox


def _test(sign: str, left: object, right: object) -> bool:
    return bool(compare(sign, left, right))


SANDBOX = _make_sandbox()
