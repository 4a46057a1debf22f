"""`remember` and `recall`: writes notes to the user's memory, and searches it."""

from runtime.actions.outcomes import DONE, Outcome
from runtime.state.events import Remembered
from runtime.state.recall_types import RecallResult, recollections
from runtime.state.scopes import WriteRefused
from runtime.turn.context import TurnContext
from scripts.expressions.values import Value
from scripts.model.actions import Recall, Remember
from scripts.model.base import Location, Template
from scripts.model.memory_plan import source_of, with_texts

OWN_SOURCE = "script"  # of a note without a source


def remember(run: TurnContext, action: Remember) -> Outcome:
    """Record a note, unless it is blank. Raises ActionFailed, LimitExceeded."""
    note = run.wording(action.text)
    if note.text.strip() and run.program.script.memory.remember != "nothing":
        source, about = run.text(action.source).strip(), run.text(action.about).strip()
        at = action.mark("metadata")
        run.record(
            Remembered(
                unit_id=run.new_id(),
                action_id=action.id,
                text=note.text.strip(),
                source=source or OWN_SOURCE,
                trust="conversation" if note.spans else "own",
                about=about,
                pinned=action.pinned,
                metadata={name: _render(run, value, at) for name, value in action.metadata.items()},
            )
        )
    return DONE


async def recall(run: TurnContext, action: Recall) -> Outcome:
    """Search memory and assign the results. Raises MemoryFailed, RecallsExceeded, ActionFailed, LimitExceeded."""
    filters = _render(run, dict(action.filters), action.mark("filters")) or None
    search = run.recall_question(
        run.text(action.query), "action", k=action.k, filters=filters, min_score=action.min_score
    )
    recalled = await run.recall(search)
    try:
        run.assign(action.into, _as_declared(run, action.into, recalled), "script")
    except WriteRefused as refused:
        run.warn_missing(action.into, str(refused))
    return DONE


def _as_declared(run: TurnContext, name: str, recalled: RecallResult) -> Value:
    """Return all results for a list, the first for a record, and for any other type the text, or None if empty."""
    declared = run.scopes.declaration(run.scopes.target(name), name)
    found = recollections(recalled)
    match declared.kind if declared is not None else None:
        case None | "list":
            return list(found)
        case "record":
            return found[0] if found else None
        case _:
            return found.as_text or None


def _render(run: TurnContext, value: Value, at: Location) -> Value:
    """Return a filter or metadata with its templates rendered. Raises ActionFailed."""

    def render(text: str) -> Value:
        if "{" not in text:
            return text
        source = source_of(text, at)
        return run.text(source) if isinstance(source, Template) else run.value(source)

    return with_texts(value, render)
