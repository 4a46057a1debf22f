"""Actions that are done at once: they say, show, or set something, or jump elsewhere."""

from runtime.actions.outcomes import DONE, Finish, Jump, Outcome, Waits
from runtime.state.events import VariantChosen
from runtime.state.state import Wait
from runtime.turn.context import ActionFailed, TurnContext
from scripts.expressions.values import Value, shorten
from scripts.model.actions import Add, AiSay, Emit, End, Ending, Goto, Say, Scene, Set, Show


def say(run: TurnContext, action: Say) -> Outcome:
    """Say the text; of several texts, the session's seed selects one."""
    index = 0
    if len(action.texts) > 1:
        index = run.draw(len(action.texts))
        run.record(VariantChosen(action.id, index))
    if action.texts:
        run.say(run.text(action.texts[index]))
    return wait_acknowledgement(run, action)


def wait_acknowledgement(run: TurnContext, action: Say | AiSay | Show) -> Outcome:
    """Return the wait after a message, if it must be acknowledged."""
    if action.acknowledge is None:
        return DONE
    text = run.text(action.acknowledge.text)
    return Waits(Wait("suggestion", suggestion=text) if text else Wait("acknowledge"))


def scene(run: TurnContext, action: Scene) -> Outcome:
    """Set the roles of the speakers from here on; a role that is not named does not change."""
    run.state.ai_role = action.speakers.ai or run.state.ai_role
    run.state.human_role = action.speakers.human or run.state.human_role
    return DONE


def show(run: TurnContext, action: Show) -> Outcome:
    """Say a media message: its text is the caption, its metadata contains the addresses."""
    parts = {"image": action.media.image, "url": action.media.url, "caption": action.media.caption}
    media: dict[str, Value] = {key: run.text(part) for key, part in parts.items() if part is not None}
    run.say(str(media.get("caption", "")), {"media": media})
    return wait_acknowledgement(run, action)


def assign(run: TurnContext, action: Set) -> Outcome:
    """Assign each variable in the order written, so that later ones may use earlier ones."""
    for name, expression in action.assignments.items():
        run.assign(name, run.value(expression), "script")
    return DONE


def add(run: TurnContext, action: Add) -> Outcome:
    """Append a value to each list, in the order written. Raises ActionFailed for a variable that is not a list."""
    for name, expression in action.additions.items():
        known = run.scopes.find(name)
        before = known[1] if known is not None else None
        if before is not None and not isinstance(before, list):
            raise ActionFailed(f"`{name}` is {shorten(before)}, not a list")
        run.assign(name, [*(before or []), run.value(expression)], "script")
    return DONE


def emit(run: TurnContext, action: Emit) -> Outcome:
    """Emit a custom event to the application, as part of the turn's events."""
    data = {name: run.value(value) for name, value in action.signal.data.items()}
    run.emit(action.id, action.signal.event, data)
    return DONE


def goto(run: TurnContext, action: Goto) -> Outcome:
    """Leave the topic for the beginning of another one, or of the same one."""
    return Jump(*run.target(action.target))


def end(run: TurnContext, action: End) -> Finish:
    """End the conversation."""
    ending = action.ending or Ending()
    return Finish(ending.reason, "end_action", action.id, ending.outcome)
