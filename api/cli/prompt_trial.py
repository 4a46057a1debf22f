"""Run one recorded call of a model again with an edited prompt template, and show both replies side by side."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from rich.columns import Columns
from rich.markup import escape
from rich.panel import Panel

from api.cli.models import model_of
from api.cli.output import console, errors, fail, failing, print_json, printable
from api.models.server_model import close_model
from api.replay.recorded_session import RecordedSession
from api.replay.replay_session import CallAgain, calls_of_turn
from api.settings import Settings
from runtime.prompts.prompt import SentPrompt, read_prompt
from runtime.prompts.templates import (
    NAMES,
    PARTS,
    Name,
    PromptInvalid,
    PromptMissing,
    TemplateSource,
    languages_for,
    read_template,
)
from runtime.state.ports import ModelFailed, ModelReply


class PromptTrial(Struct, frozen=True):
    """The call to run again: its turn, its number in the turn (None: the one that uses the template), the template."""

    turn: int
    number: int | None
    file: Path


class TrialResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """A call with the prompt that was sent and the reply, both as recorded and now.

    `sent` is None if the recorded prompt is not stored, `prompt` if the model that was called uses none.
    """

    turn: int
    call: int
    purpose: str
    action_id: str
    sent: SentPrompt | None
    prompt: SentPrompt | None
    recorded: ModelReply | None
    now: ModelReply


async def run_trial(session: RecordedSession, trial: PromptTrial, settings: Settings) -> TrialResult:
    """Call the model of the settings once with the request of a recorded call; end the command if it fails.

    Nothing is written. Raises SessionUnknown, StateUnreadable, ApiError.
    """
    if trial.turn > session.head.turn:
        fail(f"session {session.head.session_id} has no turn {trial.turn}; its last is {session.head.turn}")
    name = _template_name(trial.file)
    again = _choose_call(await calls_of_turn(session, trial.turn), trial, name)
    if name not in {again.request.purpose, *PARTS}:
        fail(f"call {again.call.number} uses the template {again.request.purpose}.jinja, not {trial.file.name}")
    with failing(PromptInvalid):
        edited = TemplateSource(
            name, languages_for(again.request.locale)[0], again.request.scheme, trial.file, read_template(trial.file)
        )
    model = model_of(settings, edited)
    try:
        with failing(ModelFailed, PromptMissing):
            reply = await model.complete(again.request)
    finally:
        await close_model(model)
    return TrialResult(
        turn=trial.turn,
        call=again.call.number,
        purpose=again.call.purpose,
        action_id=again.call.action_id,
        sent=_prompt_of(again.call.reply),
        prompt=_prompt_of(reply),
        recorded=again.call.reply and _without_prompt(again.call.reply),
        now=_without_prompt(reply),
    )


def print_trial(result: TrialResult, *, as_json: bool) -> None:
    """Print both prompts, and both replies side by side in a terminal that is wide enough."""
    if as_json:
        print_json(result)
        return
    console.print(f"[bold]turn {result.turn}, call {result.call}[/]  {escape(result.action_id)}, {result.purpose}")
    if result.prompt is None:
        errors.print("the model that was called uses no prompt, so the template has no effect")
    for title, prompt in (("recorded", result.sent), ("now", result.prompt)):
        for message in prompt.messages if prompt is not None else ():
            console.print(f"[dim]--- {message.role}, {title} ---[/]")
            console.print(printable(message.content))
    replies = (("recorded", result.recorded), ("now", result.now))
    panels = [Panel(printable(_text(reply)), title=title) for title, reply in replies]
    console.print(Columns(panels, equal=True, expand=True))


def _prompt_of(reply: ModelReply | None) -> SentPrompt | None:
    stored = reply.usage.prompt if reply is not None and reply.usage is not None else None
    return None if stored is None else read_prompt(stored)


def _without_prompt(reply: ModelReply) -> ModelReply:
    """Return the reply without the prompt in its usage, which the result has on its own."""
    return replace(reply, usage=reply.usage and replace(reply.usage, prompt=None))


def _text(reply: ModelReply | None) -> str:
    return "no reply" if reply is None else reply.raw or reply.text


def _template_name(file: Path) -> Name:
    """Return the template that a file replaces, by the file's name; end the command if there is none of this name."""
    if file.stem not in NAMES:
        fail(f"{file}: the name must be that of a template: {', '.join(f'{each}.jinja' for each in NAMES)}")
    return file.stem


def _choose_call(calls: Sequence[CallAgain], trial: PromptTrial, name: Name) -> CallAgain:
    """Return the call to run again; end the command if it is not exactly one."""
    if not calls:
        fail(f"turn {trial.turn} has no call of a language model that can be repeated")
    using = [each for each in calls if name in {each.request.purpose, *PARTS}]
    chosen = using if trial.number is None else [each for each in calls if each.call.number == trial.number]
    if len(chosen) != 1:
        known = ", ".join(f"{each.call.number} ({each.call.purpose}, {each.call.action_id})" for each in calls)
        problem = "several calls use" if chosen else "no call has this number or uses"
        fail(f"turn {trial.turn}: {problem} {trial.file.name}; name one with --call: {known}")
    return chosen[0]
