"""What each action does, said once for every analysis: what it reads and writes in which order, and where it leads.

A new action is added to `deed_of` and is then understood everywhere in this package.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias, assert_never

from msgspec import Struct

from scripts.actions import (
    Action,
    AiAsk,
    AiSay,
    AiThink,
    Ask,
    Call,
    Chat,
    Choose,
    Emit,
    End,
    Experiment,
    Foreach,
    Form,
    Goto,
    If,
    Loop,
    OnFail,
    Recall,
    Remember,
    Repeat,
    Say,
    Scene,
    Set,
    Show,
    UserSay,
    policies,
)
from scripts.conditions import Unknown
from scripts.expressions import compile_expression, compile_template
from scripts.facts import Facts
from scripts.memories import sources_in
from scripts.model import FormSheet
from scripts.nodes import Expression, Location, Template
from scripts.values import Value
from scripts.variables import Assignment, Output, OutputItem, Records

Waits: TypeAlias = Literal["never", "maybe", "always"]
_NO_NAMES: frozenset[str] = frozenset()


class Look(Struct, frozen=True):
    """A text or expression is evaluated; `at_hand` are names that have a value there besides the variables."""

    source: Template | Expression
    at_hand: frozenset[str] = _NO_NAMES
    is_condition: bool = False


class Put(Struct, frozen=True):
    """A variable is written: with the value of an expression, or with an answer.

    `doubt` says when an answer may be missing, after the word "when"; empty where there always is one. `null` says when
    none is written in place of it, but for lists, which are empty then.
    """

    name: str
    at: Location
    value: Expression | None = None
    when: Expression | None = None
    doubt: str = ""
    null: str = ""


class Leave(Struct, frozen=True):
    """A way out of the topic: to a target, or to the end where there is none."""

    target: str | None
    at: Location
    is_on_fail: bool = False


class Straight(Struct, frozen=True):
    """Nothing inside."""


class Branch(Struct, frozen=True):
    """One of two lists."""

    condition: Expression
    then: tuple[Action, ...]
    otherwise: tuple[Action, ...]


class Each(Struct, frozen=True):
    """A list for each item, perhaps never."""

    loop: Loop
    do: tuple[Action, ...]


class Again(Struct, frozen=True):
    """A list at least once, until a condition holds."""

    until: Expression | None
    do: tuple[Action, ...]


class Option(Struct, frozen=True):
    """What the variable becomes by a choice, and the actions of that choice."""

    key: str
    value: Value
    actions: tuple[Action, ...]


class Pick(Struct, frozen=True):
    """One of several lists, by the choice that is kept in a variable, or by the arm.

    `is_sure`: one of them is taken in any case; else the question may run out of rounds.
    """

    put: Put
    options: tuple[Option, ...]
    word: Literal["choice", "arm"] = "choice"
    is_sure: bool = False


class Run(Struct, frozen=True):
    """A skill, once or for each item of a list."""

    call: Call


Body: TypeAlias = Straight | Branch | Each | Again | Pick | Run


class Deed(Struct, frozen=True):
    """What an action does: first its steps, then what is inside it. `passes`: whether what follows can be reached."""

    steps: tuple[Look | Put, ...] = ()
    body: Body = Straight()
    leaves: tuple[Leave, ...] = ()
    waits: Waits = "never"
    passes: bool = True
    says: bool = False


def deed_of(action: Action, sheets: tuple[FormSheet, ...] = ()) -> Deed:
    """What an action does, once its `when` holds; `sheets` are the script's forms, whose fields a `form` fills."""
    match action:
        case Say():
            return Deed(_looks(*action.texts), says=True)
        case AiSay():
            waits: Waits = "always" if action.waits_after else "maybe" if action.utterances > 1 else "never"
            return Deed(_looks(action.task), waits=waits, says=True)
        case Ask():
            steps = (*_looks(action.question, action.invalid), *_outputs(action.outputs, action.on_fail))
            return Deed(steps, leaves=_on_fail(action.on_fail), waits="always", says=True)
        case AiAsk():
            leaves = (*_on_fail(action.on_fail), *_led_away(action))
            return Deed(_leading(action), leaves=leaves, waits="always", says=True)
        case AiThink():
            return Deed((*_looks(action.task), *_outputs(action.outputs, OnFail())))
        case Set():
            return Deed(tuple(step for name, value in action.assignments.items() for step in _set(name, value)))
        case Choose():
            return _choosing(action)
        case UserSay():
            return Deed(_looks(action.text), waits="always")
        case Show():
            return Deed(_looks(action.media.image, action.media.url, action.media.caption), says=True)
        case If():
            steps = (Look(action.condition, is_condition=True),)
            return Deed(steps, Branch(action.condition, action.then, action.otherwise))
        case Experiment():
            options = tuple(Option(arm, arm, inner) for arm, inner in action.arms.items())
            put = Put(action.plan, action.mark("experiment"))
            return Deed(body=Pick(put, options, "arm", is_sure=bool(options)))
        case Foreach():
            return Deed(_looks(action.loop.items), Each(action.loop, action.do))
        case Repeat():
            return Deed(body=Again(action.until.until, action.do))
        case Call():
            return _calling(action)
        case Emit():
            return Deed(_looks(*action.signal.data.values()))
        case Remember():
            written = sources_in(dict(action.metadata), action.mark("metadata"))
            return Deed(_looks(action.text, action.about, action.source, *written))
        case Recall():
            looks = _looks(action.query, *sources_in(dict(action.filters), action.mark("filters")))
            return Deed((*looks, Put(action.into, action.mark("into"), null="memory holds nothing of it")))
        case Form():
            steps = (*_looks(action.invalid), *_fields(action, sheets))
            return Deed(steps, leaves=_on_fail(action.on_fail), waits="always", says=True)
        case Chat():
            asked = [Look(action.exit_when, is_condition=True)] if action.exit_when is not None else []
            looks = _looks(action.task, action.exit, *(each.say for each in policies(action).values()))
            return Deed((*looks, *asked), leaves=_led_away(action), waits="always", says=True)
        case Scene():
            return Deed()
        case Goto():
            return Deed(leaves=(Leave(action.target, action.mark("goto")),), passes=False)
        case End():
            return Deed(leaves=(Leave(None, action.at),), passes=False)
        case _:
            assert_never(action)


def facts_in(source: Template | Expression) -> Facts:
    """What is known of a source that compiles. Raises ExpressionInvalid for one that does not."""
    compiled = compile_template(source.source) if isinstance(source, Template) else compile_expression(source.source)
    return compiled.facts


def sources_of(action: Action) -> Iterator[Template | Expression]:
    """Every text and expression of an action, but for those of the actions inside it."""
    deed = deed_of(action)
    found = [action.when, deed.body.until if isinstance(deed.body, Again) else None]
    for step in deed.steps:
        if isinstance(step, Look):
            yield step.source
        else:
            found += [step.value, step.when]
    yield from (each for each in found if each is not None)


def truth_of(condition: Expression | None) -> bool | None:
    """Whether a condition always or never holds, whatever the variables; None where that depends."""
    value = facts_in(condition).value if condition is not None else True
    return None if isinstance(value, Unknown) else bool(value)


def goes_on(actions: tuple[Action, ...]) -> bool:
    """Whether what follows a list of actions can be reached through it."""
    return all(passes(action) for action in actions)


def passes(action: Action) -> bool:
    """Whether what follows an action can be reached."""
    if truth_of(action.when) is not True:
        return True
    deed = deed_of(action)
    match deed.body:
        case Branch() as branch:
            truth = truth_of(branch.condition)
            return (truth is not False and goes_on(branch.then)) or (truth is not True and goes_on(branch.otherwise))
        case Again() as again:
            return goes_on(again.do)
        case Pick() as pick if deed.leaves or pick.is_sure:
            return any(goes_on(option.actions) for option in pick.options)
        case Straight() | Each() | Pick() | Run():
            return deed.passes
        case _:
            assert_never(deed.body)


def _looks(*sources: Template | Expression | None) -> tuple[Look, ...]:
    return tuple(Look(source) for source in sources if source is not None)


def _set(name: str, value: Expression) -> Iterator[Look | Put]:
    yield Look(value)
    yield Put(name, value.at, value)


def _fields(action: Form, sheets: tuple[FormSheet, ...]) -> Iterator[Look | Put]:
    """What is filled in, then what is worked out from it.

    A field that says `required: false` may stay open; of what says nothing, the form is taken to be filled in.
    """
    fields = [each for sheet in sheets if sheet.id == action.sheet for each in sheet.fields]
    for each in fields:
        if each.computed is None:
            is_open = "required" in each.marks and not each.required and each.default is None
            yield Put(each.name, each.mark("field"), doubt="the form leaves it open" if is_open else _skipped(action))
    for each in fields:
        if each.computed is not None:
            yield Look(each.computed)
            yield Put(each.name, each.mark("field"), each.computed)


def _skipped(action: Form) -> str:
    return _SKIP if action.on_fail.policy == "skip" else ""


def _leading(action: AiAsk) -> tuple[Look | Put, ...]:
    looks = list(_looks(action.task, action.invalid, action.exit, *(each.say for each in policies(action).values())))
    if action.exit_when is not None:
        looks.append(Look(action.exit_when, _taken(action.outputs), is_condition=True))
    skipped = next((f"`{key}: skip`" for key, each in policies(action).items() if each.then.policy == "skip"), "")
    return (*looks, *_outputs(action.outputs, action.on_fail, f"no valid answer comes ({skipped})" if skipped else ""))


def _taken(items: tuple[OutputItem, ...]) -> frozenset[str]:
    """The names that are at hand while an answer is judged."""
    return frozenset(each.get for item in items for each in questions_in(item)) | {
        item.tolist for item in items if isinstance(item, Records)
    }


def questions_in(item: OutputItem) -> tuple[Output, ...]:
    """The values of an output item that come from the conversation."""
    match item:
        case Output():
            return (item,)
        case Records():
            return item.fields
        case Assignment():
            return ()
        case _:
            assert_never(item)


def _outputs(items: tuple[OutputItem, ...], on_fail: OnFail, skipped: str = "") -> tuple[Look | Put, ...]:
    """What an answer gives, then what is computed from it; `skipped` says when it may be given up without one."""
    steps: list[Look | Put] = []
    for output in (output for item in items for output in questions_in(item)):
        steps += _looks(output.invalid)
        steps += [Look(output.validate, _taken(items), is_condition=True)] if output.validate is not None else []
    for item in items:
        if isinstance(item, Output):
            is_open = item.required is False and item.default is None
            doubt = _doubt(on_fail, is_open=is_open) or ("" if item.default is not None else skipped)
            steps.append(Put(item.get, item.mark("get"), doubt=doubt))
        elif isinstance(item, Records):
            doubt = _doubt(on_fail, is_open=item.required is False) or skipped
            steps.append(Put(item.tolist, item.mark("tolist"), doubt=doubt))
    for each in items:
        if isinstance(each, Assignment):
            looks = [Look(each.when, is_condition=True)] if each.when is not None else []
            steps += [*looks, Put(each.set, each.mark("set"), each.value, each.when)]
    return tuple(steps)


_SKIP = "no valid answer comes (`on_fail: skip`)"


def _doubt(on_fail: OnFail, *, is_open: bool) -> str:
    if on_fail.policy == "skip":
        return _SKIP
    return "the answer leaves it out (`required: false`)" if is_open else ""


def _on_fail(on_fail: OnFail) -> tuple[Leave, ...]:
    if on_fail.policy in {"goto", "end"}:
        target = on_fail.target if on_fail.policy == "goto" else None
        return (Leave(target, on_fail.at, is_on_fail=True),)
    return ()


def _led_away(action: AiAsk | Chat) -> tuple[Leave, ...]:
    """Where replies that lead nowhere lead."""
    thens = [each.then for each in policies(action).values() if each.then.policy in {"goto", "end"}]
    return tuple(Leave(then.target if then.policy == "goto" else None, then.at, is_on_fail=True) for then in thens)


def _choosing(action: Choose) -> Deed:
    options = tuple(
        Option(each.key, each.key if each.value is None else each.value, each.actions) for each in action.choices
    )
    doubt = "no choice is taken (`on_fail: skip`)" if action.on_fail.policy == "skip" else ""
    put = Put(action.variable, action.mark("choose"), doubt=doubt)
    return Deed(
        _looks(action.question, action.invalid, *(each.text for each in action.choices)),
        Pick(put, options),
        _on_fail(action.on_fail),
        waits="always",
        says=action.question is not None,
    )


def _calling(action: Call) -> Deed:
    at_hand = frozenset({action.loop.name}) if action.loop is not None else _NO_NAMES
    looks = _looks(action.loop.items) if action.loop is not None else ()
    return Deed((*looks, *(Look(value, at_hand) for value in action.input.values())), Run(action))
