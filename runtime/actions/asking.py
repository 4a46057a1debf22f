"""Questions whose answers are typed and validated: `ask`, `ai_ask`, and what fills outputs silently, `ai_think`.

Per round: the reply is parsed and validated, the model gives its verdict, then the exit is decided. A blank reply
asks again and costs no round. Values of the deciding reply win over those of earlier rounds.
"""

from collections.abc import Iterable, Mapping

import msgspec

from runtime.answers import parse_answer
from runtime.events import Exited
from runtime.exits import decide_exit
from runtime.models.parsing import read_further
from runtime.outcomes import DONE, Finish, Jump, Outcome, Waits, offering
from runtime.phrases import phrase
from runtime.ports import ModelReply
from runtime.run import ActionFailed, Run
from runtime.state import Source, Wait
from runtime.validation import Refused, checked
from scripts.model import AiAsk, AiThink, Ask, Assignment, OnFail, Output, OutputItem, rounds_of
from scripts.targets import resolve_target
from scripts.values import is_given


def taken(run: Run, items: Iterable[OutputItem]) -> tuple[Output, ...]:
    """The outputs that come from the conversation, each with the type its variable is declared with if it has none."""
    return tuple(_typed_as_declared(run, item) for item in items if isinstance(item, Output))


def _typed_as_declared(run: Run, output: Output) -> Output:
    if output.type is not None or output.choices:
        return output
    declared = run.scopes.declaration(run.scopes.target(output.get), output.get)
    if declared is None or (declared.type is None and not declared.choices):
        return output
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
        return _prompt(run, action, run.progress.prompt)
    run.progress.round += 1
    run.progress.replies.append(reply)
    found = parse_outputs(run, outputs, reply) if picked is None else {outputs[0].get: picked}
    refused = _keep(run, outputs, found)
    if not refused and (wanted := _missing(run, outputs)):
        answered = await run.complete("extract", action, run.text(action.question), outputs=wanted, reply=reply)
        refused = _keep(run, wanted, _typed(run, wanted, answered))
    required = [output for output in _missing(run, outputs) if output.required is not False]
    if not refused and not required:
        return _finish(run, action, "user")
    if run.progress.round >= rounds_of(action):
        return _exhausted(run, action, outputs)
    return _prompt(run, action, _complaint(run, action, refused, required))


def parse_outputs(run: Run, outputs: tuple[Output, ...], reply: str) -> dict[str, object]:
    """What the parsers find in a reply for the outputs of a question."""
    known = run.progress.values
    return dict(read_further(outputs, known, reply, run.now().date(), run.state.locale).values)


# -- ai_ask -----------------------------------------------------------------------------------------------------------


async def ai_ask(run: Run, action: AiAsk) -> Outcome:
    """Lets the model open the conversation."""
    answered = await run.complete(
        "ask", action, run.text(action.task), outputs=taken(run, action.outputs), exit_text=run.text(action.exit)
    )
    return _prompt(run, action, answered.text)


async def answer_ai_ask(run: Run, action: AiAsk, reply: str) -> Outcome:
    """Lets the model judge a reply, and goes on asking or takes the outputs."""
    if not reply.strip():
        return _prompt(run, action, run.progress.prompt)
    outputs = taken(run, action.outputs)
    run.progress.round += 1
    run.progress.replies.append(reply)
    answered = await run.complete(
        "ask", action, run.text(action.task), outputs=outputs, exit_text=run.text(action.exit), reply=reply
    )
    refused = _keep(run, outputs, _typed(run, outputs, answered))
    rounds_max = rounds_of(action)
    decision = decide_exit(
        round_number=run.progress.round,
        rounds_max=rounds_max,
        reply=answered,
        exit_when=action.exit_when is not None and run.holds(action.exit_when, run.progress.values),
        criteria=action.exit_criteria,
        scopes=run.scopes,
        taken=run.progress.values,
    )
    last = run.progress.round >= rounds_max
    if refused and not last:
        return _prompt(run, action, _complaint(run, action, refused, []))
    if not decision.exit:
        return _prompt(run, action, answered.text or run.progress.prompt)
    await _fill_missing(run, action, outputs, reply)
    required = [output for output in _missing(run, outputs) if output.required]
    if required and not last:
        return _prompt(run, action, answered.text or _complaint(run, action, {}, required))
    run.record(Exited(action.id, decision.source, decision.reason))
    wanted = [output for output in _missing(run, outputs) if output.required is not False]
    if required or (wanted and (refused or decision.source == "max_rounds")):
        return _exhausted(run, action, outputs)
    return _finish(run, action, "model" if answered.values else "user", answered.reasons)


def _typed(run: Run, outputs: tuple[Output, ...], answered: ModelReply) -> Mapping[str, object]:
    """The values the model took; where it gave a text for a typed value, what the parser makes of that text."""
    values: dict[str, object] = {}
    for output in outputs:
        value = answered.values.get(output.get)
        if isinstance(value, str) and output.kind not in {None, "text"}:
            parsed = parse_answer(
                value,
                output.kind,
                choices=output.choices,
                today=run.now().date(),
                locale=run.state.locale,
            )
            value = value if parsed is None else parsed
        if is_given(value):
            values[output.get] = value
    return values


async def _fill_missing(run: Run, action: AiAsk, outputs: tuple[Output, ...], reply: str) -> None:
    """One call for everything that is still missing, then the reply itself where the script allows it."""
    missing = _missing(run, outputs)
    if missing:
        answered = await run.complete("extract", action, run.text(action.task), outputs=missing, reply=reply)
        _keep(run, missing, _typed(run, missing, answered))
    for output in _missing(run, outputs):
        only = len(outputs) == 1 and output.kind in {None, "text"}
        if output.fallback == "raw" or (only and output.pattern is None):
            _keep(run, (output,), {output.get: reply.strip()})


# -- ai_think ---------------------------------------------------------------------------------------------------------


async def ai_think(run: Run, action: AiThink) -> Outcome:
    """Fills outputs from the conversation, in silence."""
    outputs = taken(run, action.outputs)
    answered = await run.complete("think", action, run.text(action.task), outputs=outputs)
    _keep(run, outputs, _typed(run, outputs, answered))
    for output in _missing(run, outputs):
        reason = answered.reasons.get(output.get, "the model gave no usable value")
        _default_or_warn(run, output, reason)
    return _finish(run, action, "model")


# -- shared -----------------------------------------------------------------------------------------------------------


def _prompt(run: Run, action: Ask | AiAsk, text: str) -> Outcome:
    run.progress.prompt = text
    run.say(text)
    outputs = taken(run, action.outputs)
    if isinstance(action, Ask) and len(outputs) == 1 and outputs[0].choices:
        return offering((choice, choice) for choice in outputs[0].choices)
    return Waits(Wait("text"))


def _missing(run: Run, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    return tuple(output for output in outputs if output.get not in run.progress.values)


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
    return phrase(run.state.locale, name, first.choices)


def _finish(
    run: Run, action: Ask | AiAsk | AiThink, source: Source, reasons: Mapping[str, str] | None = None
) -> Outcome:
    """Writes what was taken, then what is computed from it; `reasons` say why a value is missing."""
    outputs = taken(run, action.outputs)
    for output in outputs:
        if output.get in run.progress.values:
            run.assign(output.get, run.progress.values[output.get], source)
        elif not isinstance(action, AiThink):
            _default_or_warn(run, output, (reasons or {}).get(output.get, "the reply did not give it"))
    run.assign_computed(computed(action.outputs))
    return DONE


def _default_or_warn(run: Run, output: Output, reason: str) -> None:
    if output.default is not None:
        run.assign(output.get, output.default, "default")
    else:
        run.warn("value_missing", f"`{output.get}` stays unset: {reason}")


def _exhausted(run: Run, action: Ask | AiAsk, outputs: tuple[Output, ...]) -> Outcome:
    """The rounds are used up: keeps what is valid and follows the policy."""
    for output in outputs:
        if output.get in run.progress.values:
            run.assign(output.get, run.progress.values[output.get], "user")
        elif action.on_fail.policy == "default":
            _default_or_warn(run, output, "no valid answer within the rounds")
        else:
            run.warn("value_missing", f"`{output.get}` stays unset: no valid answer within the rounds")
    return after_failure(run, action.on_fail, action.id) or _then_computed(run, action)


def _then_computed(run: Run, action: Ask | AiAsk) -> Outcome:
    run.assign_computed(computed(action.outputs))
    return DONE


def after_failure(run: Run, on_fail: OnFail, action_id: str) -> Outcome | None:
    """Where `on_fail` leads away to; None where the script just goes on."""
    if on_fail.policy == "end":
        return Finish(f"no valid answer to {action_id}")
    if on_fail.policy != "goto":
        return None
    target = resolve_target(run.program.script, on_fail.target, run.state.phase)
    if target is None:
        raise ActionFailed(f"there is no topic or phase {on_fail.target}")
    return Jump(*target)
