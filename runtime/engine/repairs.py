"""Conversation repairs that the runtime provides: repeat, skip, cancel, correct an earlier answer, hand over.

The trigger words are the script's, or else the runtime's for the session's locale. A message triggers a repair only
if it says nothing else; a correction begins with its trigger words and names what it changes. The repairs follow
the patterns of other systems for scripted dialogue (see Rasa's "conversation repair").
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import get_args

from msgspec import Struct

from runtime.actions import ask, form
from runtime.actions.choose import as_output
from runtime.actions.dispatch import current_wait, question_of
from runtime.actions.form_answers import as_named_output
from runtime.actions.outcomes import DONE, Outcome, Waits, outcome_after
from runtime.actions.outputs import with_declared_type, with_limits
from runtime.answers.languages import ENGLISH, LANGUAGES, also_english, language_of
from runtime.answers.languages.spelling import strip_accents
from runtime.answers.reply_values import AnswerRefused, check_value, read_labelled, texts_for
from runtime.state.events import Repaired
from runtime.state.program import PlaceLost
from runtime.state.state import Cell, Wait
from runtime.turn.context import TurnContext
from scripts.detectors.words import bare, fold
from scripts.expressions.members import BUILTINS
from scripts.expressions.values import Value, is_given, text_of
from scripts.model.actions import HAND_OVER, Action, AiAsk, AiThink, Ask, Choose, Form, Set
from scripts.model.script import After, FormField, Repair, RepairKind, Scope
from scripts.model.variables import Assignment, Output
from scripts.translations.localisation import Phrase

# -- earlier answers --------------------------------------------------------------------------------------------------


class FilledVariable(Struct, frozen=True):
    """A variable that was set by an answer: its scope, the action that set it, and the output of its question."""

    scope: Scope
    by: tuple[str, str, str]
    output: Output


def find_answers(run: TurnContext) -> dict[str, FilledVariable]:
    """Return the variables in scope that were set by answers of the user, by name."""
    found = {}
    for name, scope in run.scopes.in_sight().items():
        cell = run.scopes.cells(scope)[name]
        output = _question_output(run, _writer(run, cell), name)
        if cell.by is not None and output is not None:
            found[name] = FilledVariable(scope, cell.by, with_limits(run, with_declared_type(run, output)))
    return found


def _writer(run: TurnContext, cell: Cell) -> Action | None:
    try:
        return run.program.action(*cell.by) if cell.by is not None else None
    except PlaceLost:  # the session has migrated to a version without this action
        return None


def _question_output(run: TurnContext, action: Action | None, name: str) -> Output | None:
    match action:
        case Form():
            field = _field(run, action, name)
            return as_named_output(run, field) if field is not None and field.computed is None else None
        case Ask() | AiAsk() | AiThink():
            outputs = (item for item in action.outputs if isinstance(item, Output))
            return next((output for output in outputs if output.get == name), None)
        case Choose() if action.is_fixed and all(choice.value is None for choice in action.fixed):
            return as_output(action)
        case _:
            return None


def _field(run: TurnContext, action: Form, name: str) -> FormField | None:
    sheet = run.program.forms.get(action.sheet)
    return next((field for field in sheet.fields if field.name == name), None) if sheet is not None else None


def correct(run: TurnContext, values: Mapping[str, tuple[FilledVariable, Value]]) -> list[str]:
    """Write the new values and recompute the variables that depend on them; return the names of all changed ones."""
    for name, (variable, value) in values.items():
        run.assign_in(variable.scope, name, value, "user", variable.by, variable.output)
    changed = list(values)
    computed = sorted(_find_computed(run), key=lambda each: each.cell.last_updated)
    for _ in computed:  # dependencies may be chained; each variable is recomputed at most once
        due = [each for each in computed if each.name not in changed and each.reads.intersection(changed)]
        if not due:
            break
        for each in due:
            changed.append(each.name)
            found = run.scopes.cell(each.name)
            if found is not None and found[1] is each.cell:
                output = _computed_field(run, each.cell, each.name)
                run.assign_in(found[0], each.name, _value(run, each, changed), "script", each.cell.by, output)
    return changed


class _ComputedVariable(Struct, frozen=True):
    """A variable that the script computed: its cell, and the assignments of its action, of which the last whose `when`
    holds applies.
    """

    name: str
    cell: Cell
    assignments: tuple[Assignment, ...]
    reads: frozenset[str]


def _find_computed(run: TurnContext) -> Iterator[_ComputedVariable]:
    """Yield the variables in scope that the script computed from other variables that still have a value here."""
    in_sight = run.scopes.in_sight()
    for name, scope in in_sight.items():
        cell = run.scopes.cells(scope)[name]
        found = _assignments(run, _writer(run, cell), name) if cell.source == "script" else ()
        expressions = [each.value for each in found] + [each.when for each in found if each.when is not None]
        reads = frozenset[str]().union(*(each.compiled.reads for each in expressions))
        # a variable computed from its own value, such as a counter, would be counted twice
        if found and name not in reads and all(read in in_sight or run.scopes.find(read) for read in reads - BUILTINS):
            yield _ComputedVariable(name, cell, found, reads)


def _value(run: TurnContext, computed: _ComputedVariable, changed: Collection[str]) -> Value:
    """Return the present value of a variable; null if no assignment applies any more because of what has changed.

    Raises ActionFailed.
    """
    applying = [each for each in computed.assignments if run.holds(each.when)]
    if applying:
        return run.value(applying[-1].value)
    decides = any(each.when and each.when.compiled.reads.intersection(changed) for each in computed.assignments)
    return None if decides else computed.cell.value


def _computed_field(run: TurnContext, cell: Cell, name: str) -> Output | None:
    """Return the output of a variable that is a computed field of a form; the field may name a type."""
    action = _writer(run, cell)
    field = _field(run, action, name) if isinstance(action, Form) else None
    return as_named_output(run, field) if field is not None else None


def _assignments(run: TurnContext, action: Action | None, name: str) -> tuple[Assignment, ...]:
    match action:
        case Form():
            field = _field(run, action, name)
            own = field.computed if field is not None else None
        case Set():
            own = action.assignments.get(name)
        case Ask() | AiAsk() | AiThink():
            return tuple(item for item in action.outputs if isinstance(item, Assignment) and item.set == name)
        case _:
            own = None
    return () if own is None else (Assignment(set=name, value=own),)


# -- repairs ----------------------------------------------------------------------------------------------------------


SPELLED_MAX = 3  # a word as written, with wide letters and spaces, is at most this many times longer
_AFTER_WORDS = re.compile(r"[\s,，.。:：;；!！-]*")


class NamedAnswer(Struct, frozen=True):
    """An earlier answer that a message names, and its new value."""

    name: str
    variable: FilledVariable
    value: Value


class RequestedRepair(Struct, frozen=True):
    """A repair that a message asks for, and the earlier answers that it corrects."""

    repair: Repair
    named: tuple[NamedAnswer, ...] = ()


def find_repair(run: TurnContext, said: str) -> RequestedRepair | None:
    """Return the repair that a message asks for, if the script has it."""
    plain = strip_accents(bare(said))
    for repair in run.program.script.repairs:
        words = repair.on or _words(repair.kind, language_of(run.state.locale).code)
        if bare(said) in _bare(words) or (not repair.on and plain in _plain(words)):
            return RequestedRepair(repair)
        rest = _after_words(said, words) if repair.kind == "correct" else ""
        if rest and (named := _find_named(run, rest)):
            return RequestedRepair(repair, named)
    return None


@lru_cache(maxsize=len(LANGUAGES) * len(get_args(RepairKind)))
def _words(kind: RepairKind, code: str) -> tuple[str, ...]:
    known = LANGUAGES[code]
    return also_english(known.repairs[kind], ENGLISH.repairs[kind], known)


@lru_cache(maxsize=1_000)
def _plain(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(strip_accents(bare(each)) for each in words)


@lru_cache(maxsize=1_000)
def _bare(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(bare, words))


def _after_words(said: str, words: tuple[str, ...]) -> str:
    """Return the text after the trigger words at the start of a message, in its own spelling: it becomes a value."""
    said = said.strip()
    whole = fold(said)
    for word in sorted(map(fold, words), key=len, reverse=True):
        if not whole.startswith(word[:-1]):  # its last letter may differ with an accent that follows
            continue
        ends = range(1, min(len(said), SPELLED_MAX * len(word)) + 1)
        end = next((each for each in ends if fold(said[:each]) == word), 0)
        if end:
            rest = said[end:]
            return rest[_AFTER_WORDS.match(rest).end() :]  # type: ignore[union-attr]  # matches nothing as well
    return ""


def carry_out(run: TurnContext, action: Action, wait: Wait, request: RequestedRepair) -> Outcome:
    """Carry out a repair while an action waits. Raises ActionFailed, WriteRefused."""
    match request.repair.kind:
        case "repeat":
            outcome: Outcome = _repeat(run, action, wait)
        case "skip":
            outcome = _skip(run, action, wait, request.repair)
        case "cancel":
            _say(run, request.repair, "cancelled")
            outcome = outcome_after(run, request.repair.then or After(policy="leave_topic"))
        case "correct":
            return _correct(run, action, wait, request)
        case "hand_over":
            run.emit(action.id, HAND_OVER, {"action": action.id})
            _say(run, request.repair, "handed_over")
            outcome = outcome_after(run, request.repair.then) if request.repair.then is not None else Waits(wait)
    run.record(Repaired(request.repair.kind, action.id))
    return outcome


def _say(run: TurnContext, repair: Repair, name: Phrase, choices: tuple[str, ...] = ()) -> None:
    run.say(run.text(repair.say) if repair.say is not None else run.phrase(name, choices))


def _repeat(run: TurnContext, action: Action, wait: Wait) -> Outcome:
    """Repeat the question; if there is none, repeat the session's last message before the current one."""
    run.say(question_of(run, action) or _last_message(run))
    return Waits(current_wait(run, action, wait))


def _last_message(run: TurnContext) -> str:
    history = run.history()
    last = next((at for at in reversed(range(len(history))) if history[at].role == "user"), len(history))
    return next((each.content for each in reversed(history[:last]) if each.role == "assistant" and each.content), "")


def leave_open(run: TurnContext, action: Action) -> bool:
    """Leave a question with the fallback values of its outputs, unless an answer is required; end other actions."""
    match action:
        case Ask() | AiAsk():
            return ask.leave_open(run, action)
        case Form():
            return form.leave_open(run, action)
        case _:
            return True


def _skip(run: TurnContext, action: Action, wait: Wait, repair: Repair) -> Outcome:
    if not leave_open(run, action):
        run.say(run.phrase("needed"))
        return _repeat(run, action, wait)
    if repair.say is not None:
        run.say(run.text(repair.say))
    return DONE


# -- corrections ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=len(LANGUAGES))
def _becomes(code: str) -> re.Pattern[str]:
    """Return the pattern between a name and its new value: ``age to 30``, ``Alter auf 30``."""
    words = "|".join((*LANGUAGES[code].becomes, *ENGLISH.becomes))
    return re.compile(rf"\s+(?:{words})\s+(?=\S)|\s*(?:应该是|改成|改为)\s*", re.IGNORECASE)


def _find_named(run: TurnContext, said: str) -> tuple[NamedAnswer, ...]:
    """Return the earlier answers that a text names, each with its new value."""
    variables = find_answers(run)
    outputs = tuple(each.output for each in variables.values())
    locale = run.state.locale
    values = read_labelled(outputs, _becomes(language_of(locale).code).sub(": ", said), run.today(), locale)
    return tuple(NamedAnswer(name, variables[name], value) for name, value in values.items())


def _correct(run: TurnContext, action: Action, wait: Wait, request: RequestedRepair) -> Outcome:
    refused = next(filter(None, (_refusal(run, each) for each in request.named)), "")
    if refused or not request.named:
        run.say(refused or run.phrase("which"))
        return _repeat(run, action, wait)
    changed = correct(run, {each.name: (each.variable, each.value) for each in request.named})
    run.record(Repaired("correct", action.id, tuple(changed)))
    now = run.scopes.flat()
    _say(
        run, request.repair, "corrected", tuple(f"{each.name}: {text_of(now.get(each.name))}" for each in request.named)
    )
    return _repeat(run, action, wait)


def _refusal(run: TurnContext, named: NamedAnswer) -> str:
    output = named.variable.output
    outcome = check_value(output, named.value, run.progress.values, run.holds)
    return _complaint(run, output, outcome) if isinstance(outcome, AnswerRefused) else ""


def _complaint(run: TurnContext, output: Output, refused: AnswerRefused) -> str:
    written = refused.say or output.invalid
    if written is None:
        return run.phrase(refused.phrase, texts_for(refused.phrase, output))
    return run.text(written, {output.get: refused.value} if is_given(refused.value) else {})
