"""Questions with typed and validated answers: `ask`, `ai_ask`, and `ai_think`, which sets outputs without a question.

In each round, the reply is parsed and validated, the model gives its verdict, then the exit is decided. A blank reply
repeats the question and does not count as a round. Values of the last reply take precedence over earlier ones.
"""

from collections.abc import Callable, Iterable, Mapping

from runtime.actions import records
from runtime.actions.outcomes import DONE, Outcome, Waits, after_failure, give_up, offering
from runtime.actions.outputs import check_together, expected_outputs, outputs_of
from runtime.answers.reply_values import (
    CERTAIN_TYPES,
    AnswerRefused,
    choices_of,
    is_blank,
    label_of,
    parse_answer,
    read_further,
    read_records,
    texts_for,
)
from runtime.state.events import Exited
from runtime.state.ports import ModelReply, Purpose
from runtime.state.state import Source, Wait
from runtime.turn import exits
from runtime.turn.context import TurnContext
from runtime.turn.exits import ExitDecision, Judgement, words_of
from runtime.turn.model_requests import always, complete
from scripts.expressions.values import is_given
from scripts.model.actions import Action, AiAsk, AiThink, Ask, Policy, rounds_of
from scripts.model.base import Template
from scripts.model.variables import Output, OutputItem, Records

# -- ask ------------------------------------------------------------------------------------------------------------


def ask(run: TurnContext, action: Ask) -> Outcome:
    """Ask the fixed question."""
    return _prompt(run, action, run.text(action.question))


async def answer_ask(run: TurnContext, action: Ask, reply: str, picked: str | None) -> Outcome:
    """Handle the reply to a fixed question, or the picked choice."""
    outputs, progress = expected_outputs(run, action), run.progress
    if picked is None and is_blank(reply):
        return _say_and_wait(run, action, progress.said_last)
    progress.round += 1
    progress.replies.append(reply)
    found = _parse(run, action, outputs, reply) if picked is None else dict[str, object]({outputs[0].get: picked})
    _take_records(run, action, reply, found)
    refused = _keep(run, outputs, found)
    missing = _missing(run, action)
    if not refused and missing:
        answered = await _complete(run, action, "extract", action.question, outputs=missing, reply=reply)
        refused = _take(run, action.outputs, outputs, answered)
        missing = _missing(run, action)
    required = [output for output in missing if output.required is not False]
    if not refused and not required:
        return _finish(run, action, "user")
    if progress.round >= rounds_of(action):
        raw = {output.get: reply.strip() for output in missing if output.fallback == "raw" and picked is None}
        unfit = _keep(run, missing, raw)
        if not unfit and raw.keys() >= refused.keys() | {output.get for output in required}:
            return _finish(run, action, "user")
        return _end_rounds(run, action)
    return _insist(run, action, _complaint(run, action, refused, required))


def has_typed_values(run: TurnContext, action: Action, reply: str) -> bool:
    """Return whether the parsers find values for all outputs of a question, whose types not every text has."""
    if not isinstance(action, Ask):
        return False
    outputs = expected_outputs(run, action)
    found = _parse(run, action, outputs, reply)
    return bool(outputs) and all(each.kind in CERTAIN_TYPES and each.get in found for each in outputs)


def _parse(run: TurnContext, action: Ask, outputs: tuple[Output, ...], reply: str) -> dict[str, object]:
    """Return the values that the parsers find in a reply for the outputs of a question."""
    known = {output.get for output in outputs} - {output.get for output in _missing(run, action)}
    return dict(read_further(outputs, known, reply, run.today(), run.state.locale).values)


def _take_records(run: TurnContext, action: Ask, reply: str, found: dict[str, object]) -> None:
    """Store the records of a reply that lists several; their fields are then no values of another one."""
    for item in records.records_of(outputs_of(run, action)):
        if listed := read_records(item.fields, reply, run.today(), run.state.locale):
            records.take_list(run, item, listed)
            for field in item.fields:
                found.pop(field.get, None)


# -- ai_ask -----------------------------------------------------------------------------------------------------------


async def ai_ask(run: TurnContext, action: AiAsk) -> Outcome:
    """Have the model ask the first question."""
    outputs = expected_outputs(run, action)
    answered = await _complete(run, action, "ask", action.task, outputs=outputs, speak=always)
    return _prompt(run, action, answered.text)


async def answer_ai_ask(run: TurnContext, action: AiAsk, reply: str) -> Outcome:
    """Have the model evaluate a reply, then ask again or set the outputs."""
    if is_blank(reply):
        return _say_and_wait(run, action, run.progress.said_last)
    outputs = expected_outputs(run, action)
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
        speak=lambda verdict: _is_said(run, action, outputs, verdict),
    )
    refused, judgement = _judge(run, action, outputs, answered)
    exits.record(run, action, answered, judgement)
    decision, policy = judgement.decision, judgement.policy
    if policy is not None and judgement.is_given_up:
        return _give_up(run, action, decision, policy)
    last = run.progress.round >= rounds_of(action)
    if refused and not last:
        return _insist(run, action, _complaint(run, action, refused, []))
    if not decision.exit:
        if policy is not None and policy.say is not None:
            return _insist(run, action, run.text(policy.say))
        return _prompt(run, action, answered.text or run.progress.prompt)
    await _fill_missing(run, action, outputs, reply)
    missing = _missing(run, action)
    required = [output for output in missing if output.required]
    if required and not last:
        if answered.text:
            return _prompt(run, action, answered.text)
        return _insist(run, action, _complaint(run, action, {}, required))
    run.record(Exited(action.id, decision.source, decision.reason))
    wanted = [output for output in missing if output.required is not False]
    if required or (wanted and (refused or decision.source == "max_rounds")):
        return _end_rounds(run, action)
    return _finish(run, action, "model" if answered.values else "user", answered.reasons)


def _judge(
    run: TurnContext, action: AiAsk, outputs: tuple[Output, ...], answered: ModelReply
) -> tuple[dict[str, AnswerRefused], Judgement]:
    """Store the valid values of a reply and decide whether the action is done; return the refused values too."""
    refused = _take(run, action.outputs, outputs, answered)
    return refused, exits.judge(run, action, answered, records.with_lists(run.progress.values, action.outputs))


def _is_said(run: TurnContext, action: AiAsk, outputs: tuple[Output, ...], verdict: ModelReply) -> bool:
    """Return whether the text that comes with a verdict will certainly be said."""
    with run.trial():
        refused, judgement = _judge(run, action, outputs, verdict)
    says_own = judgement.policy is not None and judgement.policy.say is not None
    return not refused and not judgement.decision.exit and not says_own


def _give_up(run: TurnContext, action: AiAsk, decision: ExitDecision, policy: Policy) -> Outcome:
    """End a question that the user does not answer: write the valid values and follow the policy for that case."""
    if policy.say is not None:
        run.say(run.text(policy.say))
    run.record(Exited(action.id, decision.source, decision.reason))
    unset = _unset_outputs(run, action)
    _write(run, action.outputs, "user")
    for output in unset:
        _default_or_warn(run, output, decision.reason)
    outcome = give_up(run, action.id, policy.then)
    if outcome is DONE:
        run.assign_computed(action.outputs)
    return outcome


def parse_model_values(run: TurnContext, outputs: tuple[Output, ...], answered: ModelReply) -> Mapping[str, object]:
    """Return the model's values; a text given for a typed output is parsed."""
    values: dict[str, object] = {}
    for output in outputs:
        value = answered.values.get(output.get)
        if isinstance(value, str) and output.kind not in {None, "text"}:
            parsed = parse_answer(
                value, output.kind, choices=choices_of(output), today=run.today(), locale=run.state.locale
            )
            value = value if parsed is None else parsed
        if is_given(value):
            values[output.get] = value
    return values


async def _fill_missing(run: TurnContext, action: AiAsk, outputs: tuple[Output, ...], reply: str) -> None:
    """Ask the model once for all missing values, then use the reply itself where the script allows it."""
    missing = _missing(run, action)
    if missing:
        answered = await _complete(run, action, "extract", action.task, outputs=missing, reply=reply)
        _take(run, action.outputs, missing, answered)
    for output in _missing(run, action):
        only = len(outputs) == 1 and output.kind in {None, "text"}
        if output.fallback == "raw" or (only and output.pattern is None):
            _keep(run, (output,), {output.get: reply.strip()})


# -- ai_think ---------------------------------------------------------------------------------------------------------


async def ai_think(run: TurnContext, action: AiThink) -> Outcome:
    """Set outputs from the conversation without saying anything."""
    outputs = expected_outputs(run, action)
    answered = await _complete(run, action, "think", action.task, outputs=outputs)
    _take(run, action.outputs, outputs, answered)
    for output in _unset_outputs(run, action):
        reason = answered.reasons.get(output.get, "the model gave no usable value")
        _default_or_warn(run, output, reason)
    return _finish(run, action, "model")


# -- shared -----------------------------------------------------------------------------------------------------------


async def _complete(
    run: TurnContext,
    action: Ask | AiAsk | AiThink,
    purpose: Purpose,
    task: Template,
    *,
    outputs: tuple[Output, ...],
    reply: str | None = None,
    speak: Callable[[ModelReply], bool] | None = None,
) -> ModelReply:
    return await complete(
        run,
        purpose,
        action,
        run.wording(task),
        outputs=outputs,
        until=run.wording(words_of(action) if purpose == "ask" and isinstance(action, AiAsk) else None),
        reply=reply,
        records=records.records_of(action.outputs),
        speak=speak,
    )


def _prompt(run: TurnContext, action: Ask | AiAsk, text: str) -> Outcome:
    """Ask a question; it is repeated until there is another one."""
    progress = run.progress
    progress.prompt, progress.complaint = text, ""
    return _say_and_wait(run, action, text)


def _insist(run: TurnContext, action: Ask | AiAsk, text: str) -> Outcome:
    """Say why the question is still open."""
    run.progress.complaint = text
    return _say_and_wait(run, action, text)


def _say_and_wait(run: TurnContext, action: Ask | AiAsk, text: str) -> Outcome:
    run.say(text)
    return wait_for_answer(run, action)


def wait_for_answer(run: TurnContext, action: Ask | AiAsk) -> Waits:
    """Return the wait for an answer, with the choices that an `ask` for a single value offers now."""
    if isinstance(action, Ask):
        outputs = expected_outputs(run, action)
        if len(outputs) == 1 and outputs[0].choices:
            return offering(choices_of(outputs[0]))
    return Waits(Wait("text"))


def _missing(run: TurnContext, action: Ask | AiAsk | AiThink) -> tuple[Output, ...]:
    """Return the outputs without a value, including the fields of the current record."""
    values = run.progress.values
    found: list[Output] = []
    for item in outputs_of(run, action):
        if isinstance(item, Output):
            if item.get not in values:
                found.append(item)
        elif isinstance(item, Records):
            found += records.missing_fields(values, item)
    return tuple(found)


def _take(
    run: TurnContext, items: Iterable[OutputItem], outputs: tuple[Output, ...], answered: ModelReply
) -> dict[str, AnswerRefused]:
    """Store the valid values and records of a model reply; return the refused values with their reasons."""
    listed = records.records_of(items)
    for each in listed:
        records.take_list(run, each, answered.values.get(each.tolist))
    before = dict(run.progress.values) if listed else {}
    refused = _keep(run, outputs, parse_model_values(run, outputs, answered))
    for each in listed:
        records.take_fields(run, each, before)
    return refused


def _keep(run: TurnContext, outputs: tuple[Output, ...], values: Mapping[str, object]) -> dict[str, AnswerRefused]:
    """Store the valid values; return the refused ones with their reasons.

    A known value with a `validate` is checked again, because that may read one of the new values.
    """
    known, refused = run.progress.values, dict[str, AnswerRefused]()
    again = {each.get: known[each.get] for each in outputs if each.validate and each.get in known}
    new = {name: value for name, value in values.items() if value not in (None, "")}
    for name, outcome in check_together(run, outputs, {**again, **new}).items():
        if isinstance(outcome, AnswerRefused):
            refused[name] = outcome
            if name not in new:
                del known[name]
        elif is_given(outcome):
            known[name] = outcome
    return refused


def _complaint(
    run: TurnContext, action: Ask | AiAsk, refused: Mapping[str, AnswerRefused], missing: list[Output]
) -> str:
    """Return the text for an invalid answer: the output's own, the action's, or the runtime's.

    Of several values it names those that are missing, so that the user can say which one is which.
    """
    expected = expected_outputs(run, action)
    outputs = [output for output in expected if output.get in refused] or missing
    first = outputs[0]
    own = refused[first.get].say if first.get in refused else None
    written = own or first.invalid or action.invalid
    if written is not None:
        given = {name: each.value for name, each in refused.items() if is_given(each.value)}
        return run.text(written, {**run.progress.values, **given})
    if not refused and (len(missing) > 1 or len(_missing(run, action)) < len(expected)):
        return run.phrase("missing", tuple(map(label_of, missing)))
    wanted = "choice" if first.choices and first.kind == "number" else first.kind or "text"
    phrase = refused[first.get].phrase if first.get in refused else wanted
    return run.phrase(phrase, texts_for(phrase, first))


def _finish(
    run: TurnContext, action: Ask | AiAsk | AiThink, source: Source, reasons: Mapping[str, str] | None = None
) -> Outcome:
    """Write the values, then the variables computed from them; `reasons` say why a value is missing."""
    unset = () if isinstance(action, AiThink) else _unset_outputs(run, action)
    _write(run, action.outputs, source)
    for output in unset:
        _default_or_warn(run, output, (reasons or {}).get(output.get, "the reply did not give it"))
    run.assign_computed(action.outputs)
    return DONE


def _write(run: TurnContext, items: Iterable[OutputItem], source: Source) -> None:
    """Write the values and append the records."""
    values = run.progress.values
    for item in items:
        match item:
            case Output() if item.get in values:
                run.assign(item.get, values[item.get], source, item)
            case Records():
                if found := records.list_of(values, item):
                    known = run.scopes.find(item.tolist)
                    before = known[1] if known is not None and isinstance(known[1], list) else []
                    run.assign(item.tolist, records.append_records(run, before, found, item), source)


def _unset_outputs(run: TurnContext, action: Ask | AiAsk | AiThink) -> tuple[Output, ...]:
    """Return the outputs that got no value; fields of records are not included."""
    values = run.progress.values
    return tuple(item for item in outputs_of(run, action) if isinstance(item, Output) and item.get not in values)


def _default_or_warn(run: TurnContext, output: Output, reason: str) -> None:
    if output.default is not None:
        run.assign(output.get, output.default, "default", output)
    else:
        run.warn_missing(output.get, reason)


def _end_rounds(run: TurnContext, action: Ask | AiAsk) -> Outcome:
    """End a question whose rounds are used up: write the valid values and follow the policy."""
    unset = _unset_outputs(run, action)
    _write(run, action.outputs, "user")
    for output in unset:
        if action.on_fail.then.policy == "default":
            _default_or_warn(run, output, "no valid answer within the rounds")
        else:
            run.warn_missing(output.get, "no valid answer within the rounds")
    if action.on_fail.then.policy in {"default", "skip"}:
        run.assign_computed(action.outputs)
    return after_failure(run, action)


def leave_open(run: TurnContext, action: Ask | AiAsk) -> bool:
    """Leave a question that the user does not want to answer, unless the script requires an answer.

    Values that the session asked to confirm stay.
    """
    if run.progress.is_confirmation:
        run.assign_computed(action.outputs)
        return True
    if any(output.required for output in _missing(run, action)):
        return False
    _finish(run, action, "user", {output.get: "the user skipped it" for output in expected_outputs(run, action)})
    return True
