"""`remember` and `recall`: notes for the user's memory, and what it holds."""

from runtime import recalling
from runtime.events import Remembered
from runtime.outcomes import DONE, Outcome
from runtime.recalled import Recalled, recollections
from runtime.run import Run
from runtime.scopes import WriteRefused
from scripts.actions import Recall, Remember
from scripts.memories import source_of
from scripts.nodes import Location, Template
from scripts.values import Value

OWN_SOURCE = "script"  # of a note that does not say who it is from


def remember(run: Run, action: Remember) -> Outcome:
    """Keeps a note; a blank one is none. Raises ActionFailed, LimitExceeded."""
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
                trust="told" if note.spans else "own",
                about=about,
                pinned=action.pinned,
                metadata={name: _filled(run, value, at) for name, value in action.metadata.items()},
            )
        )
    return DONE


async def recall(run: Run, action: Recall) -> Outcome:
    """Asks memory, and keeps what it gives. Raises MemoryFailed, RecallsExceeded, ActionFailed, LimitExceeded."""
    filters = _filled(run, dict(action.filters), action.mark("filters")) or None
    asked = recalling.question(
        run, run.text(action.query), "action", k=action.k, filters=filters, min_score=action.min_score
    )
    recalled = await recalling.put(run, asked)
    try:
        run.assign(action.into, _as_declared(run, action.into, recalled), "script")
    except WriteRefused as refused:
        run.warn("value_missing", f"`{action.into}` stays unset: {refused}")
    return DONE


def _as_declared(run: Run, name: str, recalled: Recalled) -> Value:
    """All of it as a list; as one record the first; as anything else its text, which is null where there is none."""
    declared = run.scopes.declaration(run.scopes.target(name), name)
    found = recollections(recalled)
    match declared.kind if declared is not None else None:
        case None | "list":
            return list(found)
        case "record":
            return found[0] if found else None
        case _:
            return found.as_text or None


def _filled(run: Run, value: Value, at: Location) -> Value:
    """A filter or metadata with its texts filled in. Raises ActionFailed."""
    match value:
        case str() if "{" in value:
            source = source_of(value, at)
            return run.text(source) if isinstance(source, Template) else run.value(source)
        case list():
            return [_filled(run, each, at) for each in value]
        case dict():
            return {name: _filled(run, each, at) for name, each in value.items()}
        case _:
            return value
