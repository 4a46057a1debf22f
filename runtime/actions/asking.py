"""Questions whose answers are typed and validated: `ask`, `ai_ask`, and what fills outputs silently, `ai_think`.

Per round: the reply is parsed and validated, the model gives its verdict, then the exit is decided. A blank reply
asks again and costs no round. Values of the deciding reply win over those of earlier rounds.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from runtime import judging
from runtime.actions import records
from runtime.actions.leading_away import after_failure, onward
from runtime.answers import parse_answer
from runtime.events import Exited
from runtime.exits import ExitDecision
from runtime.judging import Judgement
from runtime.models.parsing import choices_of, read_further
from runtime.outcomes import DONE, Outcome, Waits, offering
from runtime.phrases import phrase
from runtime.ports import ModelReply, Purpose
from runtime.run import Run
from runtime.speech import always
from runtime.state import Source, Wait
from runtime.validation import Refused, checked
from scripts.actions import AiAsk, AiThink, Ask, Policy, rounds_of
from scripts.nodes import Template
from scripts.values import is_given
from scripts.variables import Assignment, Output, OutputItem, Records


def taken(run: Run, items: Iterable[OutputItem]) -> tuple[Output, ...]:
    """The outputs that come from the conversation, each with the type its variable is declared with if it has none.

    The fields of records are among them in every round: a further reply may give a further record.
    """
    found: list[Output] = []
    for item in items:
        match item:
            case Output():
                found.append(typed_as_declared(run, item))
            case Records():
                found += item.fields
            case _:
                pass
    return tuple(found)


def typed_as_declared(run: Run, output: Output) -> Output:
    """An output with the type its variable is declared with, where it has none of its own."""
    if output.type is not None or output.choices:
        return output
    declared = run.scopes.declaration(run.scopes.target(output.get), output.get)
    if declared is None or (declared.type is None and not declared.choices):
        is_counted = output.fallback != "raw" and run.program.is_counted(run.state.home(), output.get)
        return msgspec.structs.replace(output, type="number") if is_counted else output
    return msgspec.structs.replace(output, type=declared.type, choices=declared.choices)


def computed(items: Iterable[OutputItem]) -> tuple[Assignment, ...]:
    """The outputs that are computed."""
    return tuple(item for item in items if isinstance(item, Assignment))


# -- ask ------------------------------------------------------------------------------------------------------------


def ask(run: Run, action: Ask) -> Outcome:
    """Puts the fixed question."""
    return _prompt(run, action, run.text(action.question))


async def answer_ask(run: Run, action: Ask, reply: str, picked: str | None) -> Outcome:
    """Takes the reply to a fixed question, or the choice that was picked."""
    outputs = taken(run, action.outputs)
    if picked is None and not reply.strip():
        return _say_and_wait(run, action, run.progress.said_last)
    run.progress.round += 1
    run.progress.replies.append(reply)
    found = _parsed(run, action, outputs, reply) if picked is None else {outputs[0].get: picked}
    refused = _keep(run, outputs, found)
    if not refused and (wanted := _missing(run, action.outputs)):
        answered = await _complete(run, action, "extract", action.question, outputs=wanted, reply=reply)
        refused = _take(run, action.outputs, wanted, answered)
    required = [output for output in _missing(run, action.outputs) if output.required is not False]
    if not refused and not required:
        return _finish(run, action, "user")
    if run.progress.round >= rounds_of(action):
        return _exhausted(run, action)
    return _insist(run, action, _complaint(run, action, refused, required))


def _parsed(run: Run, action: Ask, outputs: tuple[Output, ...], reply: str) -> dict[str, object]:
    """What the parsers find in a reply for the outputs of a question."""
    known = {output.get for output in outputs} - {output.get for output in _missing(run, action.outputs)}
    return dict(read_further(outputs, known, reply, run.now().date(), run.state.locale).values)


# -- ai_ask -----------------------------------------------------------------------------------------------------------


async def ai_ask(run: Run, action: AiAsk) -> Outcome:
    """Lets the model open the conversation."""
    outputs = taken(run, action.outputs)
    answered = await _complete(run, action, "ask", action.task, outputs=outputs, speak=always)
    return _prompt(run, action, answered.text)


async def answer_ai_ask(run: Run, action: AiAsk, reply: str) -> Outcome:
    """Lets the model judge a reply, and goes on asking or takes the outputs."""
    if not reply.strip():
        return _say_and_wait(run, action, run.progress.said_last)
    outputs = taken(run, action.outputs)
    records.begin_round(run, action.outputs)
    run.progress.round += 1
    run.progress.replies.append(reply)
    answered = await _complete(
        run,
        action,
        "ask",
        action.task,
        outputs=outputs,
        reply=reply,
        speak=lambda verdict: _goes_on(run, action, outputs, verdict),
    )
    refused, judgement = _judged(run, action, outputs, answered)
    judging.record(run, action, answered, judgement)
    decision, policy = judgement.decision, judgement.policy
    if policy is not None and judgement.is_given_up:
        return _given_up(run, action, decision, policy)
    last = run.progress.round >= rounds_of(action)
    if refused and not last:
        return _insist(run, action, _complaint(run, action, refused, []))
    if not decision.exit:
        if policy is not None and policy.say is not None:
            return _insist(run, action, run.text(policy.say))
        return _prompt(run, action, answered.text or run.progress.prompt)
    await _fill_missing(run, action, outputs, reply)
    missing = _missing(run, action.outputs)
    required = [output for output in missing if output.required]
    if required and not last:
        if answered.text:
            return _prompt(run, action, answered.text)
        return _insist(run, action, _complaint(run, action, {}, required))
    run.record(Exited(action.id, decision.source, decision.reason))
    wanted = [output for output in missing if output.required is not False]
    if required or (wanted and (refused or decision.source == "max_rounds")):
        return _exhausted(run, action)
    return _finish(run, action, "model" if answered.values else "user", answered.reasons)


def _judged(
    run: Run, action: AiAsk, outputs: tuple[Output, ...], answered: ModelReply
) -> tuple[dict[str, Refused], Judgement]:
    """Keeps what the model took from a reply, and decides whether the action is done; which values do not pass."""
    refused = _take(run, action.outputs, outputs, answered)
    return refused, judging.judge(run, action, answered, records.with_lists(run.progress.values, action.outputs))


def _goes_on(run: Run, action: AiAsk, outputs: tuple[Output, ...], verdict: ModelReply) -> bool:
    """Whether the words that come with a verdict are sure to be said."""
    with run.trial():
        refused, judgement = _judged(run, action, outputs, verdict)
    says_own = judgement.policy is not None and judgement.policy.say is not None
    return not refused and not judgement.decision.exit and not says_own


def _given_up(run: Run, action: AiAsk, decision: ExitDecision, policy: Policy) -> Outcome:
    """The user does not answer, and the script leaves it at that: keeps what is valid and goes where it says."""
    if policy.say is not None:
        run.say(run.text(policy.say))
    run.record(Exited(action.id, decision.source, decision.reason))
    _write(run, action.outputs, "user")
    for output in _unset(run, action):
        _default_or_warn(run, output, decision.reason)
    return onward(run, policy.then, action.id) or _then_computed(run, action)


def typed(run: Run, outputs: tuple[Output, ...], answered: ModelReply) -> Mapping[str, object]:
    """The values the model took; where it gave a text for a typed value, what the parser makes of that text."""
    values: dict[str, object] = {}
    for output in outputs:
        value = answered.values.get(output.get)
        if isinstance(value, str) and output.kind not in {None, "text"}:
            parsed = parse_answer(
                value,
                output.kind,
                choices=choices_of(output),
                today=run.now().date(),
                locale=run.state.locale,
            )
            value = value if parsed is None else parsed
        if is_given(value):
            values[output.get] = value
    return values


async def _fill_missing(run: Run, action: AiAsk, outputs: tuple[Output, ...], reply: str) -> None:
    """One call for everything that is still missing, then the reply itself where the script allows it."""
    missing = _missing(run, action.outputs)
    if missing:
        answered = await _complete(run, action, "extract", action.task, outputs=missing, reply=reply)
        _take(run, action.outputs, missing, answered)
    for output in _missing(run, action.outputs):
        only = len(outputs) == 1 and output.kind in {None, "text"}
        if output.fallback == "raw" or (only and output.pattern is None):
            _keep(run, (output,), {output.get: reply.strip()})


# -- ai_think ---------------------------------------------------------------------------------------------------------


async def ai_think(run: Run, action: AiThink) -> Outcome:
    """Fills outputs from the conversation, in silence."""
    outputs = taken(run, action.outputs)
    answered = await _complete(run, action, "think", action.task, outputs=outputs)
    _take(run, action.outputs, outputs, answered)
    for output in _missing(run, [item for item in action.outputs if isinstance(item, Output)]):
        reason = answered.reasons.get(output.get, "the model gave no usable value")
        _default_or_warn(run, output, reason)
    return _finish(run, action, "model")


# -- shared -----------------------------------------------------------------------------------------------------------


async def _complete(
    run: Run,
    action: Ask | AiAsk | AiThink,
    purpose: Purpose,
    task: Template,
    *,
    outputs: tuple[Output, ...],
    reply: str | None = None,
    speak: Callable[[ModelReply], bool] | None = None,
) -> ModelReply:
    return await run.complete(
        purpose,
        action,
        run.wording(task),
        outputs=outputs,
        until=run.wording(action.exit if purpose == "ask" and isinstance(action, AiAsk) else None),
        reply=reply,
        records=records.records_of(action.outputs),
        speak=speak,
    )


def _prompt(run: Run, action: Ask | AiAsk, text: str) -> Outcome:
    """Put a question, which stays the one to put again until there is another."""
    run.progress.prompt, run.progress.complaint = text, ""
    return _say_and_wait(run, action, text)


def _insist(run: Run, action: Ask | AiAsk, text: str) -> Outcome:
    """Say why the question stays open."""
    run.progress.complaint = text
    return _say_and_wait(run, action, text)


def _say_and_wait(run: Run, action: Ask | AiAsk, text: str) -> Outcome:
    run.say(text)
    outputs = taken(run, action.outputs)
    if isinstance(action, Ask) and len(outputs) == 1 and outputs[0].choices:
        return offering((choice.key, choice.text) for choice in choices_of(outputs[0]))
    return Waits(Wait("text"))


def _missing(run: Run, items: Iterable[OutputItem]) -> tuple[Output, ...]:
    """The outputs without a value, among them the fields of the record that is being taken."""
    values = run.progress.values
    found: list[Output] = []
    for item in items:
        match item:
            case Output() if item.get not in values:
                found.append(typed_as_declared(run, item))
            case Records():
                found += records.missing_fields(values, item)
            case _:
                pass
    return tuple(found)


def _take(
    run: Run, items: Iterable[OutputItem], outputs: tuple[Output, ...], answered: ModelReply
) -> dict[str, Refused]:
    """Keeps what the model took, records among it, and says of the others why not."""
    listed = records.records_of(items)
    for each in listed:
        records.take_list(run, each, answered.values.get(each.tolist))
    before = dict(run.progress.values) if listed else {}
    refused = _keep(run, outputs, typed(run, outputs, answered))
    for each in listed:
        records.take_fields(run, each, before)
    return refused


def _keep(run: Run, outputs: tuple[Output, ...], values: Mapping[str, object]) -> dict[str, Refused]:
    """Keeps the values that pass, and says of the others why not."""
    refused: dict[str, Refused] = {}
    for output in outputs:
        outcome = checked(run, output, values.get(output.get))
        if isinstance(outcome, Refused):
            refused[output.get] = outcome
        elif is_given(outcome):
            run.progress.values[output.get] = outcome
    return refused


def _complaint(run: Run, action: Ask | AiAsk, refused: Mapping[str, Refused], missing: list[Output]) -> str:
    """What to say when an answer does not do: the output's own words, the action's, or the runtime's."""
    outputs = [output for output in taken(run, action.outputs) if output.get in refused] or missing
    first = outputs[0]
    written = first.invalid or action.invalid
    if written is not None:
        return run.text(written)
    name = refused[first.get].phrase if first.get in refused else first.kind or "text"
    texts = tuple(choice.text for choice in choices_of(first))
    return phrase(run.state.locale, name, texts, own=run.program.script.phrases)


def _finish(
    run: Run, action: Ask | AiAsk | AiThink, source: Source, reasons: Mapping[str, str] | None = None
) -> Outcome:
    """Writes what was taken, then what is computed from it; `reasons` say why a value is missing."""
    _write(run, action.outputs, source)
    if not isinstance(action, AiThink):
        for output in _unset(run, action):
            _default_or_warn(run, output, (reasons or {}).get(output.get, "the reply did not give it"))
    run.assign_computed(computed(action.outputs))
    return DONE


def _write(run: Run, items: Iterable[OutputItem], source: Source) -> None:
    """Writes the values that were taken, and appends the records."""
    values = run.progress.values
    for item in items:
        match item:
            case Output() if item.get in values:
                run.assign(item.get, values[item.get], source, item)
            case Records():
                if found := records.list_of(values, item):
                    known = run.scopes.find(item.tolist)
                    before = known[1] if known is not None and isinstance(known[1], list) else []
                    run.assign(item.tolist, [*before, *found], source)
            case _:
                pass


def _unset(run: Run, action: Ask | AiAsk) -> tuple[Output, ...]:
    """The outputs that got no value; a record is what it is."""
    return _missing(run, [item for item in action.outputs if isinstance(item, Output)])


def _default_or_warn(run: Run, output: Output, reason: str) -> None:
    if output.default is not None:
        run.assign(output.get, output.default, "default", output)
    else:
        run.warn("value_missing", f"`{output.get}` stays unset: {reason}")


def _exhausted(run: Run, action: Ask | AiAsk) -> Outcome:
    """The rounds are used up: keeps what is valid and follows the policy."""
    _write(run, action.outputs, "user")
    for output in _unset(run, action):
        if action.on_fail.policy == "default":
            _default_or_warn(run, output, "no valid answer within the rounds")
        else:
            run.warn("value_missing", f"`{output.get}` stays unset: no valid answer within the rounds")
    return after_failure(run, action.on_fail, action.id) or _then_computed(run, action)


def _then_computed(run: Run, action: Ask | AiAsk) -> Outcome:
    run.assign_computed(computed(action.outputs))
    return DONE


def leave_open(run: Run, action: Ask | AiAsk) -> bool:
    """Leaves a question the user does not want to answer, if the script does not require an answer."""
    if any(output.required for output in _missing(run, action.outputs)):
        return False
    _finish(run, action, "user", {output.get: "the user skipped it" for output in taken(run, action.outputs)})
    return True
