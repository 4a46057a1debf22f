"""`chat`: free conversation, until the model or a condition ends it or its rounds are used up."""

from runtime.events import Exited
from runtime.exits import decide_exit
from runtime.outcomes import DONE, Outcome, Waits
from runtime.ports import ModelReply
from runtime.run import Run
from runtime.speech import always
from runtime.state import Wait
from scripts.actions import Chat, rounds_of


async def chat(run: Run, action: Chat) -> Outcome:
    """Lets the model open the conversation."""
    return _says(run, await _complete(run, action, None))


async def answer_chat(run: Run, action: Chat, reply: str) -> Outcome:
    """Lets the model answer; the last of its rounds still gets an answer."""
    if not reply.strip():
        run.say(run.progress.prompt)
        return Waits(Wait("text"))
    run.progress.round += 1
    run.progress.replies = [*run.progress.replies, reply][-rounds_of(action) :]
    answered = await _complete(run, action, reply)
    decision = decide_exit(
        round_number=run.progress.round,
        rounds_max=rounds_of(action),
        reply=answered,
        exit_when=action.exit_when is not None and run.holds(action.exit_when),
        criteria=action.exit_criteria,
        scopes=run.scopes,
        taken={},
    )
    if not decision.exit:
        return _says(run, answered)
    run.say(answered.text)
    run.record(Exited(action.id, decision.source, decision.reason))
    return DONE


async def _complete(run: Run, action: Chat, reply: str | None) -> ModelReply:
    task, until = run.wording(action.task), run.wording(action.exit)
    return await run.complete("chat", action, task, until=until, reply=reply, speak=always)


def _says(run: Run, answered: ModelReply) -> Outcome:
    run.progress.prompt = answered.text
    run.say(answered.text)
    return Waits(Wait("text"))
