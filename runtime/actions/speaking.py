"""What the assistant says without asking: `say`, `ai_say`, `show`."""

from runtime.events import Exited, VariantChosen
from runtime.exits import decide_exit, says_done
from runtime.outcomes import DONE, Outcome, Waits
from runtime.run import Run
from runtime.speech import always
from runtime.state import Wait
from scripts.actions import AiSay, Say, Scene, Show
from scripts.values import Value

ACKNOWLEDGE = Waits(Wait("acknowledge"))


def say(run: Run, action: Say) -> Outcome:
    """The text as written; of several one, by the session's seed."""
    index = 0
    if len(action.texts) > 1:
        index = run.draw(len(action.texts))
        run.record(VariantChosen(action.id, index))
    if action.texts:
        run.say(run.text(action.texts[index]))
    return DONE


async def ai_say(run: Run, action: AiSay, reply: str | None) -> Outcome:
    """One utterance of as many as it may make; `reply` is what the user said to the one before."""
    if reply is not None:
        run.progress.replies.append(reply)
        if action.utterances == 1:
            return DONE
    may_stop = reply is not None and action.exit_criteria is not None
    speak = None if may_stop else always
    answered = await run.complete("say", action, run.wording(action.task), reply=reply, speak=speak)
    run.progress.round += 1
    if reply is not None and action.exit_criteria is not None:
        decision = decide_exit(
            round_number=run.progress.round - 1,
            rounds_max=action.utterances,
            reply=answered,
            exit_when=False,
            criteria=action.exit_criteria,
            scopes=run.scopes,
            taken={},
        )
        if decision.exit and decision.source != "model":
            run.record(Exited(action.id, decision.source, decision.reason))
            return DONE
    run.say(answered.text)
    if says_done(answered):
        run.record(Exited(action.id, "model", answered.exit_reason))
        return DONE
    return ACKNOWLEDGE if run.progress.round < action.utterances or action.waits_after else DONE


def scene(run: Run, action: Scene) -> Outcome:
    """Who speaks from here on; a side that is not named stays as it is."""
    run.state.ai_role = action.speakers.ai or run.state.ai_role
    run.state.human_role = action.speakers.human or run.state.human_role
    return DONE


def show(run: Run, action: Show) -> Outcome:
    """A media message: the caption as its text, the addresses as its metadata."""
    parts = {"image": action.media.image, "url": action.media.url, "caption": action.media.caption}
    media: dict[str, Value] = {key: run.text(part) for key, part in parts.items() if part is not None}
    run.say(str(media.get("caption", "")), {"media": media})
    return DONE
