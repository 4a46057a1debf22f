"""The effects of each action, shared by all analyses: its reads and writes in order, and where it leads.

A new action needs only be added to `effect_of`.
"""

import itertools
from collections.abc import Iterator
from typing import Literal, TypeAlias, assert_never

from msgspec import Struct
from msgspec.structs import replace

from scripts.expressions.members import FAILURE
from scripts.expressions.values import Value
from scripts.model import actions
from scripts.model.actions import Action, Asking, Exit, Question, policies, timed_arms, walk
from scripts.model.base import Expression, Location, Template
from scripts.model.memory_plan import sources_in
from scripts.model.own_actions import variables_of
from scripts.model.script import FormDefinition, timers_of
from scripts.model.variable_names import reads_below
from scripts.model.variables import Assignment, Output, OutputItem, Records

Waits: TypeAlias = Literal["never", "maybe", "always"]
LeaveKind: TypeAlias = Literal["goto", "end", "on_fail", "on_blocked", "on_off_topic", "expire"]
EFFECTS_MAX = 100_000  # effects in the cache; no file has so many actions
_NO_NAMES: frozenset[str] = frozenset()


class Read(Struct, frozen=True):
    """The evaluation of a text or expression; `at_hand` are names that have a value there besides the variables."""

    source: Template | Expression
    at_hand: frozenset[str] = _NO_NAMES
    is_condition: bool = False


class Write(Struct, frozen=True):
    """A write of a variable: the value of an expression, or an answer.

    `doubt` says when an answer may be missing, after the word "when"; empty if there always is one. `null` says when
    null is written instead; lists are empty then. `has_default`: a question that expires writes a default.
    """

    name: str
    at: Location
    value: Expression | None = None
    when: Expression | None = None
    doubt: str = ""
    null: str = ""
    has_default: bool = False


class Leave(Struct, frozen=True):
    """A jump out of the topic: to a target, or to the end if there is none, and the key that makes it."""

    target: str | None
    at: Location
    kind: LeaveKind

    @property
    def is_after_wait(self) -> bool:
        """Whether the user had the time to answer before."""
        return self.kind not in {"goto", "end"}


class Straight(Struct, frozen=True):
    """Nothing inside."""


class Branch(Struct, frozen=True):
    """A branch: one of two lists."""

    condition: Expression
    then: tuple[Action, ...]
    otherwise: tuple[Action, ...]


class Each(Struct, frozen=True):
    """A list that runs once per item, possibly never."""

    loop: actions.Loop
    do: tuple[Action, ...]


class LoopBack(Struct, frozen=True):
    """A list that runs at least once, until a condition is true."""

    until: Expression | None
    do: tuple[Action, ...]


class Option(Struct, frozen=True):
    """The value that a choice gives the variable, and the actions of that choice; null for the choices of a list."""

    key: str
    value: Value
    actions: tuple[Action, ...]


class Select(Struct, frozen=True):
    """One of several lists, selected by the choice stored in a variable, or by the arm.

    `is_sure`: one of them runs in any case; otherwise the question may run out of rounds.
    """

    put: Write
    options: tuple[Option, ...]
    word: Literal["choice", "arm"] = "choice"
    is_sure: bool = False


class Run(Struct, frozen=True):
    """A call of a skill, once or for each item of a list."""

    call: actions.Call


Body: TypeAlias = Straight | Branch | Each | LoopBack | Select | Run


class Effect(Struct, frozen=True):
    """The effect of an action: first its steps, then its inner lists. `passes`: whether its end is reachable.

    `failing` are the actions of a question without a valid answer; the answer is then not written.
    """

    steps: tuple[Read | Write, ...] = ()
    body: Body = Straight()
    leaves: tuple[Leave, ...] = ()
    waits: Waits = "never"
    passes: bool = True
    failing: tuple[Action, ...] = ()

    @property
    def written(self) -> Iterator[tuple[str, Location]]:
        """Every name that the action itself writes, with its location."""
        yield from ((step.name, step.at) for step in self.steps if isinstance(step, Write))
        match self.body:
            case Select(put=put):
                yield put.name, put.at
            case Run(call=call):
                yield from ((name, call.mark("output")) for name in call.assigned)


_EFFECTS: dict[int, tuple[Action, Effect]] = {}
"""The effects of recent actions by identity, because each part of a check asks for them again."""


def effect_of(action: Action, sheets: tuple[FormDefinition, ...] = ()) -> Effect:
    """Return the effect of an action whose `when` is true; `sheets` are the script's forms, whose fields it sets."""
    known = _EFFECTS.get(id(action))
    if known is not None and known[0] is action:
        return known[1]
    if len(_EFFECTS) >= EFFECTS_MAX:
        _EFFECTS.clear()
    effect = _with_time(action, _effect_of(action, sheets))
    if not isinstance(action, actions.Form):  # whose effect depends on the forms
        _EFFECTS[id(action)] = action, effect
    return effect


def forget_effects() -> None:
    """Free the memory of the effects after a check."""
    _EFFECTS.clear()


def _with_time(action: Action, effect: Effect) -> Effect:
    """Add the reads and writes of reminders and expiry, which may happen before the reply."""
    if not isinstance(action, Question) or not (moments := timers_of(action)):
        return effect
    steps: list[Read | Write] = list(_looks(*(each.date for each in moments)))
    steps += _looks(*(each.say for each in action.remind))
    for inner in (inner for arm in timed_arms(action).values() for inner in walk(arm)):
        steps += [replace(each, doubt=_NOT_YET) if isinstance(each, Write) else each for each in effect_of(inner).steps]
    effect = _expiring(effect, action.expire)
    return replace(effect, steps=(*steps, *effect.steps))


def with_shared_expiry(action: Action, effect: Effect, shared: actions.Expiry | None) -> Effect:
    """Return the effect of an action where questions without an expiry of their own have a shared one."""
    own = action.expire if isinstance(action, Question) else None
    if not isinstance(action, Question | actions.OwnAction) or own is not None or effect.waits == "never":
        return effect
    return _expiring(effect, shared)


def _expiring(effect: Effect, expire: actions.Expiry | None) -> Effect:
    """Return the effect of a question that expires: the answers may be missing, or the conversation goes elsewhere."""
    if expire is None:
        return effect
    if leaves := _leaving("expire", expire.then):
        return replace(effect, leaves=(*effect.leaves, *leaves))
    sure = _surely_set(expire.actions)
    body = replace(effect.body, put=_expire(effect.body.put, sure)) if isinstance(effect.body, Select) else effect.body
    steps = tuple(_expire(each, sure) if isinstance(each, Write) else each for each in effect.steps)
    return replace(effect, steps=steps, body=body)


def _surely_set(done: tuple[Action, ...]) -> frozenset[str]:
    """Return the variables to which the `do` of an expiry gives a value in any case."""
    sets = (each for each in done if isinstance(each, actions.Set) and each.when is None)
    return frozenset(name for each in sets for name, value in each.assignments.items() if value.facts.value is not None)


_NOT_YET = "its time has not come"
EXPIRED = "there is no answer in time (`expire`)"


def _expire(step: Write, sure: frozenset[str]) -> Write:
    """Return the write of an answer, which is missing if the question expires; its `do` sets the variables `sure`."""
    is_set = step.value is not None or step.has_default or step.name in sure
    return step if is_set or step.doubt else replace(step, doubt=EXPIRED)


def _effect_of(action: Action, sheets: tuple[FormDefinition, ...]) -> Effect:
    match action:
        case actions.Say():
            return Effect((*_looks(*action.texts), *_reads_of_acknowledgement(action)), waits=_after_message(action))
        case actions.AiSay():
            return _saying(action)
        case actions.Ask():
            return _asking(action)
        case actions.AiAsk():
            return _failing(action, Effect(_leading(action), leaves=_leaves(action), waits="always"))
        case actions.AiThink():
            return Effect((*_looks(action.task), *_outputs(action.outputs, actions.OnFail())))
        case actions.Set():
            return Effect(tuple(Write(name, value.at, value) for name, value in action.assignments.items()))
        case actions.Add():
            added = ((Read(value), Write(name, value.at)) for name, value in action.additions.items())
            return Effect(tuple(itertools.chain.from_iterable(added)))
        case actions.Choose():
            return _choosing(action)
        case actions.UserSay():
            return Effect(_looks(action.text), waits="always")
        case actions.Show():
            looks = _looks(action.media.image, action.media.url, action.media.caption)
            return Effect((*looks, *_reads_of_acknowledgement(action)), waits=_after_message(action))
        case actions.If():
            steps = (Read(action.condition, is_condition=True),)
            return Effect(steps, Branch(action.condition, action.then, action.otherwise))
        case actions.Experiment():
            return _assigning(action)
        case actions.Foreach():
            return Effect(_looks(action.loop.items), Each(action.loop, action.do))
        case actions.Repeat():
            return Effect(body=LoopBack(action.until.until, action.do))
        case actions.Call():
            return _calling(action)
        case actions.Emit():
            return Effect(_looks(*action.signal.data.values()))
        case actions.Remember():
            return _remembering(action)
        case actions.Recall():
            return _recalling(action)
        case actions.CallTool():
            return _using(action)
        case actions.Form():
            return _filling(action, sheets)
        case actions.Chat():
            return _chatting(action)
        case actions.Scene():
            return Effect()
        case actions.Sleep():
            return Effect(_looks(action.moment.date), waits="always")
        case actions.Goto():
            return Effect(leaves=(Leave(action.target, action.mark("goto"), "goto"),), passes=False)
        case actions.End():
            return Effect(leaves=(Leave(None, action.at, "end"),), passes=False)
        case actions.OwnAction():
            return _of_package(action)
        case _:
            assert_never(action)


def _saying(action: actions.AiSay) -> Effect:
    is_waited_for = action.acknowledge is None and action.utterances > 1
    said = (*_looks(action.task), *_reads_of_acknowledgement(action), *_exiting(action.exits))
    return Effect(said, waits="maybe" if is_waited_for else _after_message(action))


def _asking(action: actions.Ask) -> Effect:
    asks = _looks(action.question, action.invalid)
    confirms = _confirming(action.if_known, _output_names(action.outputs))
    steps = (*asks, *confirms, *_outputs(action.outputs, action.on_fail))
    return _failing(action, Effect(steps, leaves=_leaves(action), waits="always"))


def _assigning(action: actions.Experiment) -> Effect:
    options = tuple(Option(arm, arm, inner) for arm, inner in action.arms.items())
    put = Write(action.plan, action.mark("experiment"))
    return Effect(body=Select(put, options, "arm", is_sure=bool(options)))


def _reads_of_acknowledgement(action: actions.Say | actions.AiSay | actions.Show) -> tuple[Read, ...]:
    return _looks(action.acknowledge.text) if action.acknowledge is not None else ()


def _after_message(action: actions.Say | actions.AiSay | actions.Show) -> Waits:
    return "never" if action.acknowledge is None else "always"


def _remembering(action: actions.Remember) -> Effect:
    metadata = sources_in(dict(action.metadata), action.mark("metadata"))
    return Effect(_looks(action.text, action.about, action.source, *metadata))


def _recalling(action: actions.Recall) -> Effect:
    looks = _looks(action.query, *sources_in(dict(action.filters), action.mark("filters")))
    return Effect((*looks, Write(action.into, action.mark("into"), null="memory has no result for it")))


def _of_package(action: actions.OwnAction) -> Effect:
    """Return the effect of an action of a package: it reads its texts and expressions, and may wait and say."""
    own = (name for name in type(action).__struct_fields__ if name not in actions.Step.__struct_fields__)
    names = variables_of(action)
    # it may set its variables before it says a text
    at_hand = frozenset(variable.name for _, variable in names)
    looks = (Read(each, at_hand) for name in own for each in reads_below(getattr(action, name)))
    writes = (Write(variable.name, variable.at) for _, variable in names)
    return Effect((*looks, *writes), waits="maybe")


def _looks(*sources: Template | Expression | None) -> tuple[Read, ...]:
    return tuple(Read(source) for source in sources if source is not None)


def _filling(action: actions.Form, sheets: tuple[FormDefinition, ...]) -> Effect:
    steps: tuple[Read | Write, ...] = (*_looks(action.invalid), *_fields(action, sheets))
    return _failing(action, Effect(steps, leaves=_leaves(action), waits="always"))


def _failing(action: Asking, effect: Effect) -> Effect:
    """Add what a question without a valid answer says and does."""
    says = _looks(action.on_fail.say)
    return replace(effect, steps=(*effect.steps, *says), failing=action.on_fail.actions)


def _fields(action: actions.Form, sheets: tuple[FormDefinition, ...]) -> Iterator[Read | Write]:
    """Yield what limits and defaults read, the writes of the fields that the user fills in, and of computed fields.

    A field with an explicit `required: false` may stay empty; all others count as filled in.
    """
    fields = [each for sheet in sheets if sheet.id == action.sheet for each in sheet.fields]
    for each in fields:
        yield from _looks(*each.expressions)
    for each in fields:
        if each.computed is None:
            is_open = "required" in each.marks and not each.required and each.default is None
            doubt = "the form leaves it empty" if is_open else _doubt(action.on_fail, is_open=False)
            yield Write(each.name, each.mark("field"), doubt=doubt, has_default=each.default is not None)
    for each in fields:
        if each.computed is not None:
            yield Write(each.name, each.mark("field"), each.computed)


def _leading(action: actions.AiAsk) -> tuple[Read | Write, ...]:
    says = (each.say for each in policies(action).values())
    looks = list(_looks(action.task, action.invalid, *says))
    looks += _confirming(action.if_known, _output_names(action.outputs))
    looks += _exiting(action.exits, _output_names(action.outputs))
    skipped = next((f"`{key}: skip`" for key, each in policies(action).items() if each.then.policy == "skip"), "")
    doubt = f"there is no valid answer ({skipped})" if skipped else ""
    return (*looks, *_looking_up(action), *_outputs(action.outputs, action.on_fail, doubt))


def _confirming(if_known: actions.IfKnown, names: frozenset[str]) -> tuple[Read, ...]:
    """Return what the text reads that asks whether known values are right; all `names` have a value then."""
    return () if if_known.confirm is None else (Read(if_known.confirm, names),)


def _exiting(exits: tuple[Exit, ...], names: frozenset[str] = frozenset()) -> tuple[Read, ...]:
    """Return what exits read; `names` have a value while they are tried."""
    conditions = tuple(Read(each.when, names, is_condition=True) for each in exits if each.when is not None)
    return (*_looks(*(each.said for each in exits)), *conditions)


def _output_names(items: tuple[OutputItem, ...]) -> frozenset[str]:
    """Return the names that have a value while an answer is validated."""
    lists = {item.tolist for item in items if isinstance(item, Records)}
    return frozenset(each.get for item in items for each in item.questions) | lists


def _outputs(items: tuple[OutputItem, ...], on_fail: actions.OnFail, skipped: str = "") -> tuple[Read | Write, ...]:
    """Return the writes of an answer, then of values computed from it; `skipped` says when there may be no answer."""
    steps: list[Read | Write] = []
    for output in (output for item in items for output in item.questions):
        steps += _looks(output.invalid, *output.expressions)
        steps += [Read(each.unless, _output_names(items), is_condition=True) for each in output.validate]
        steps += [Read(each.say, _output_names(items)) for each in output.validate if each.say is not None]
    for item in items:
        if not isinstance(item, Assignment):
            has_default = isinstance(item, Output) and item.default is not None
            is_open = item.required is False and not has_default
            doubt = _doubt(on_fail, is_open=is_open) or ("" if has_default else skipped)
            at = item.mark("get" if isinstance(item, Output) else "tolist")
            steps.append(Write(item.variable, at, doubt=doubt, has_default=has_default))
    for each in items:
        if isinstance(each, Assignment):
            looks = [Read(each.when, is_condition=True)] if each.when is not None else []
            steps += [*looks, Write(each.set, each.mark("set"), each.value, each.when)]
    return tuple(steps)


def _doubt(on_fail: actions.OnFail, *, is_open: bool) -> str:
    if on_fail.then.policy == "skip" and not on_fail.actions:
        return "there is no valid answer (`on_fail: skip`)"
    return "the answer does not contain it (`required: false`)" if is_open else ""


def _leaves(action: Asking | actions.Chat) -> tuple[Leave, ...]:
    """Return the jumps after invalid or unproductive replies."""
    failing = _leaving("on_fail", action.on_fail.then) if isinstance(action, Asking) else ()
    return (*failing, *(leave for key, each in policies(action).items() for leave in _leaving(key, each.then)))


def _leaving(kind: LeaveKind, then: actions.AfterRounds | actions.Onward | actions.FailureExit) -> tuple[Leave, ...]:
    """Return the jump to where the conversation continues, if that is not the next action."""
    return (Leave(then.target or None, then.at, kind),) if then.policy in {"goto", "end"} else ()


def _chatting(action: actions.Chat) -> Effect:
    looks = _looks(action.task, *(each.say for each in policies(action).values()))
    conditions = _exiting(action.exits)
    steps: tuple[Read | Write, ...] = (*looks, *conditions, *_looking_up(action))
    return Effect(steps, leaves=_leaves(action), waits="always")


def _looking_up(action: actions.AiAsk | actions.Chat) -> Iterator[Write]:
    """Yield the writes of the tools that the model may call."""
    for into in (each.into for each in action.tools if each.into is not None):
        yield from (Write(name, into.mark(name), doubt="the model does not call the tool") for name in into.variables)


def _choosing(action: actions.Choose) -> Effect:
    options = [Option(each.key, each.key if each.value is None else each.value, each.actions) for each in action.fixed]
    options += [Option("", None, ())] if not action.is_fixed else []
    is_skipped = action.on_fail.then.policy == "skip" and not action.on_fail.actions
    doubt = "no choice is selected (`on_fail: skip`)" if is_skipped else ""
    put = Write(action.variable, action.mark("choose"), doubt=doubt)
    effect = Effect(
        (
            *_looks(action.question, action.invalid),
            *_confirming(action.if_known, frozenset({action.variable})),
            *itertools.chain.from_iterable(map(_reads_of_choice, action.choices)),
        ),
        Select(put, tuple(options)),
        _leaves(action),
        waits="always",
    )
    return _failing(action, effect)


def _reads_of_choice(choice: actions.ChoiceItem | actions.ListedChoices) -> Iterator[Read]:
    """Yield what a choice reads when it is offered."""
    at_hand = _NO_NAMES
    if isinstance(choice, actions.ListedChoices):
        at_hand = frozenset({choice.loop.name})
        yield Read(choice.loop.items)
        yield Read(choice.key, at_hand)
    if choice.when is not None:
        yield Read(choice.when, at_hand, is_condition=True)
    yield Read(choice.text, at_hand)


_FAILURES = actions.Loop(items=Expression("[failure]"), name=FAILURE)


def _using(action: actions.CallTool) -> Effect:
    """Return the effect of a tool; the actions after a failure run once or never, with `failure` as their item."""
    on_fail = action.on_fail
    is_skipped = on_fail is not None and on_fail.then.policy == "skip"
    doubt = "the tool fails (`on_fail`)" if is_skipped else ""
    into = action.into.variables if action.into is not None else {}
    writes = (Write(name, action.into.mark(name), doubt=doubt) for name in into if action.into is not None)
    steps: tuple[Read | Write, ...] = (*_looks(*action.given.values()), *writes)
    if on_fail is None:
        return Effect(steps)
    said = (Read(on_fail.say, frozenset({FAILURE})),) if on_fail.say is not None else ()
    body = Each(_FAILURES, on_fail.actions) if on_fail.actions else Straight()
    return Effect((*steps, *said), body, _leaving("on_fail", on_fail.then))


def _calling(action: actions.Call) -> Effect:
    at_hand = frozenset({action.loop.name}) if action.loop is not None else _NO_NAMES
    looks = _looks(action.loop.items) if action.loop is not None else ()
    return Effect((*looks, *(Read(value, at_hand) for value in action.input.values())), Run(action))
