"""The context of one turn: its state, events, messages, variables and texts, with their limits."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, tzinfo

import msgspec
from msgspec import Struct

from runtime.answers.languages import phrase
from runtime.context.ports import View
from runtime.context.selection import Contexts, newest, view_of
from runtime.context.text_lengths import cut_text
from runtime.state.events import HISTORY_MAX, Body, Emitted, Event, Message, Recollected, Role, Warned
from runtime.state.limits import UNLIMITED, Limits
from runtime.state.ports import Ids, Journal, Memory, Meter, Model, OnDelta
from runtime.state.program import Program
from runtime.state.recall_types import By, RecallResult, RecallWish, recollections
from runtime.state.scopes import Scopes
from runtime.state.state import HandOver, Progress, Source, State, copy_of, own_copy, restore_state
from runtime.state.tool_ports import Tools
from runtime.tools.examples import EXAMPLES
from runtime.turn.calls import BudgetTracker, Calls, NoJournal, ToolCalls, add_up
from runtime.turn.message_stream import MessageStream
from runtime.turn.turn_recall import QUERY_CHARS_MAX, RecallQuestion, TurnRecalls
from scripts.expressions.expressions import Evaluation
from scripts.expressions.members import SPEAKER_PARTS, Speaker
from scripts.expressions.sandbox import MISSING, ExpressionFailed, to_text
from scripts.expressions.values import Recollections, Value
from scripts.model.actions import HAND_OVER, Action
from scripts.model.base import Expression, Template
from scripts.model.memory_plan import K_MAX
from scripts.model.script import FormDefinition, Scope
from scripts.model.script import Role as SpeakerRole
from scripts.model.variables import Assignment, Output, OutputItem
from scripts.translations.localisation import Phrase


class LimitExceeded(Exception):
    """A turn exceeded one of its limits; the message names the limit."""


class ActionFailed(Exception):
    """An action could not be carried out; the message is for the script's author."""


class Mark(Struct, frozen=True):
    """A point in a turn that it can be reset to."""

    state: State
    events: int
    history: tuple[Message, ...]


class TurnEnvironment(Struct, frozen=True, kw_only=True):
    """What a turn runs with, besides its script, state and input. The script sees the time `now` in all of it.

    `history` are the messages so far. `journal` stores the model calls while the turn runs, `meter` counts them over
    all turns and sessions, `live` receives the text of messages as it is produced. `contexts` select the conversation
    for models, `memory` answers searches and `tools` calls. `default_zone` is the time zone of sessions without one.
    """

    model: Model
    ids: Ids
    limits: Limits
    now: datetime
    history: tuple[Message, ...] = ()
    journal: Journal = NoJournal()
    meter: Meter | None = None
    live: OnDelta | None = None
    contexts: Contexts = Contexts()
    memory: Memory | None = None
    tools: Tools = EXAMPLES
    default_zone: str = "UTC"


class TurnContext:
    """The state of a running turn and all its events so far."""

    def __init__(
        self,
        program: Program,
        state: State,
        environment: TurnEnvironment,
        *,
        calls_end_at: float = math.inf,
        before: "TurnContext | None" = None,
    ) -> None:
        """`before` is the same turn up to its restart, which a missing search result caused. Model calls stop at
        `calls_end_at`, by the event loop's clock.
        """
        self.program = program
        self.state = state
        self.limits = limits = environment.limits
        self.contexts = environment.contexts
        self.default_zone = environment.default_zone
        self.new_id = environment.ids
        self.scopes = Scopes(program, state)
        self.events: list[Event] = []
        self.action_id = ""
        meter, journal = environment.meter, environment.journal
        earlier = journal.spent
        if earlier.calls:
            state.spent = add_up(state.spent, earlier)
        budget = BudgetTracker(state, limits.turn_budget, limits.session_budget, meter, earlier)
        self.has_budget = meter is not None or limits.turn_budget != UNLIMITED or limits.session_budget != UNLIMITED
        if before is None:
            self.recalls = TurnRecalls(environment.memory, limits.recalls_max, limits.recall_s)
            self.tool_calls = ToolCalls(environment.tools)
            self.calls = Calls(environment.model, journal, budget, calls_end_at)
            # where detectors watch the session's messages, nothing is streamed before they have run
            self.speech = MessageStream(None if program.watches_assistant else environment.live)
        else:
            self.recalls, self.tool_calls = before.recalls, before.tool_calls
            self.calls, self.speech = before.calls, before.speech
            self.calls.restart(budget)
            self.speech.restart()
        self.has_context = (
            program.has_context or state.context_settings is not None or self.contexts.default is not None
        )  # whether a strategy selects what models see
        self._now = environment.now
        self._history = list(environment.history)
        self.first_number = state.message_seq + 1  # of the turn's own messages
        self._actions = 0
        self._output_chars = 0
        self.computed_outputs: dict[tuple[str, str, str], tuple[OutputItem, ...]] = {}
        """The outputs with computed limits of actions, by phase, topic and id, until a variable is written."""
        self.computed_forms: dict[tuple[str, str, str], FormDefinition] = {}
        """The forms with computed limits, by the actions that show them, until a variable is written."""

    # -- what happened --------------------------------------------------------------------------------------------

    def record(self, body: Body) -> None:
        """Add an event with the next number. Raises LimitExceeded."""
        if len(self.events) >= self.limits.events_max:
            raise LimitExceeded(f"more than {self.limits.events_max:,} events in one turn")
        self.state.event_seq += 1
        self.events.append(Event(self.state.event_seq, body))

    def emit(self, action_id: str, event: str, data: Mapping[str, Value]) -> None:
        """Send an event to the application; `hand_over` asks for a person. Raises LimitExceeded."""
        self.record(Emitted(action_id, event, data))
        if event == HAND_OVER and self.state.hand_over is None:
            self.state.hand_over = HandOver(self.now(), action_id)

    def say(self, text: str, metadata: Mapping[str, Value] | None = None) -> None:
        """Add a message of the assistant, unless the text is blank. Raises LimitExceeded."""
        if not text.strip() and not metadata:
            return
        metadata = {**(metadata or {}), **(self._speaker(self.role) if self.program.roles else {})}
        self._output_chars += len(text) + sum([len(str(value)) for value in metadata.values()])
        if self._output_chars > self.limits.output_chars_max:
            raise LimitExceeded(f"more than {self.limits.output_chars_max:,} characters said in one turn")
        self.speech.finish(self.state.message_seq + 1, self.action_id, text)
        self.append("assistant", text, metadata)

    def hear(self, text: str, metadata: Mapping[str, Value] | None = None) -> None:
        """Add a message of the user."""
        self.state.heard += 1
        self.append("user", text, {**(metadata or {}), **self._speaker(self.state.human_role)})

    def home(self) -> tuple[str, str]:
        """Return where the current actions are looked up: phase and topic, or the home of a skill or interrupt."""
        return self.state.home() if self.program.has_calls else (self.state.phase, self.state.topic)

    @property
    def role(self) -> str:
        """Return the current speaker: the action's own role, else that of the scene."""
        own = self.program.action(*self.home(), self.action_id).role if self.action_id else ""
        return own or self.state.ai_role

    def _speaker(self, role: str) -> dict[str, Value]:
        """Return the metadata about the speaker that clients receive."""
        known = self.program.roles.get(role)
        if known is None:
            return {}
        return {"speaker": {"role": role, "name": known.name or role, **({"pic": known.pic} if known.pic else {})}}

    def append(self, role: Role, text: str, metadata: Mapping[str, Value]) -> None:
        """Add a message, also one that was exchanged outside the session. Raises LimitExceeded."""
        self.state.message_seq += 1
        message = Message(
            number=self.state.message_seq,
            message_id=self.new_id(),
            role=role,
            content=text,
            action_id=self.action_id,
            metadata=metadata,
        )
        self._history.append(message)
        self.record(message)

    def withhold(self, message: Message, text: str) -> Message:
        """Replace the text of a message of this turn, which then counts as never said; return the new message."""
        speaker = {key: value for key, value in message.metadata.items() if key == "speaker"}
        instead = msgspec.structs.replace(message, content=text, metadata=speaker)
        self.events = [Event(each.seq, instead) if each.body is message else each for each in self.events]
        self._history = [instead if each is message else each for each in self._history]
        self.calls.withhold(message, instead)
        for frame in self.state.frames:
            if frame.held is not None:
                held = _reword(frame.held.progress, message.content, text)
                frame.held = msgspec.structs.replace(frame.held, progress=held)
        self.state.progress = _reword(self.state.progress, message.content, text)
        return instead

    def forget_unsaid(self) -> None:
        """Remove all texts of the model that were not said in this turn."""
        self.calls.forget_unsaid({each.body.content for each in self.events if isinstance(each.body, Message)})

    def warn(self, code: str, message: str) -> None:
        """Record a warning for the script's author."""
        self.record(Warned(code, message, self.action_id))

    def warn_missing(self, name: str, reason: str) -> None:
        """Warn that a variable gets no value: it stays as it was."""
        found = self.scopes.find(name)
        state = "stays unset" if found is None or found[1] is None else "keeps its earlier value"
        self.warn("value_missing", f"`{name}` {state}: {reason}")

    def mark(self) -> Mark:
        """Return the current point of the turn."""
        return Mark(copy_of(self.state), len(self.events), tuple(self._history))

    def back_to(self, mark: Mark) -> None:
        """Undo everything since a mark, except model calls and their usage. A mark can be used once."""
        restore_state(self.state, mark.state)
        del self.events[mark.events :]
        self._history = list(mark.history)
        self.computed_outputs.clear()
        self.computed_forms.clear()
        self.speech.back_to(self.state.message_seq)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo all changes of the block to the current action's progress and to the events."""
        events, seq, progress = len(self.events), self.state.event_seq, own_copy(self.state.progress)
        try:
            yield
        finally:
            del self.events[events:]
            self.state.event_seq, self.state.progress = seq, progress

    def count_action(self) -> None:
        """Count a step of the engine. Raises LimitExceeded."""
        self._actions += 1
        if self._actions > self.limits.actions_max:
            raise LimitExceeded(
                f"more than {self.limits.actions_max:,} actions in one turn; does a loop never wait for the user?"
            )

    @property
    def progress(self) -> Progress:
        """Return the progress of the current action."""
        if self.state.progress is None:
            self.state.progress = Progress()
        return self.state.progress

    def phrase(self, name: Phrase, choices: tuple[str, ...] = ()) -> str:
        """Return one of the runtime's texts, or the script's replacement for it."""
        return phrase(self.state.locale, name, choices, own=self.program.script.phrases)

    def draw(self, sides: int) -> int:
        """Return the session's next random number, from 0 to `sides` - 1, which depends on its seed alone."""
        self.state.draws += 1
        drawn = hashlib.blake2b(f"{self.state.seed}:{self.state.draws}".encode(), digest_size=8).digest()
        return int.from_bytes(drawn) % sides

    # -- variables --------------------------------------------------------------------------------------------------

    def assign(self, name: str, value: object, source: Source, output: Output | None = None) -> None:
        """Write a variable in its scope, with the `output` that the value came from. Raises WriteRefused."""
        self.assign_in(self.scopes.target(name), name, value, source, output=output)

    def assign_in(
        self,
        scope: Scope,
        name: str,
        value: object,
        source: Source,
        by: tuple[str, str, str] | None = None,
        output: Output | None = None,
    ) -> None:
        """Write a variable of a certain scope; `by` is the action recorded as its writer. Raises WriteRefused."""
        if by is None and self.action_id:
            by = (*self.home(), self.action_id)
        changed = self.scopes.write(scope, name, value, source, self.now(), by, output, self.action_id)
        self.computed_outputs.clear()
        self.computed_forms.clear()
        self.record(changed)

    def assign_computed(self, items: tuple[OutputItem, ...]) -> None:
        """Assign the ``{set, value, when}`` items of an output list, in order."""
        for each in items:
            if isinstance(each, Assignment) and self.holds(each.when):
                self.assign(each.set, self.value(each.value), "script")

    def target(self, name: str) -> tuple[str, str]:
        """Return phase and topic of a target of `goto`. Raises ActionFailed."""
        found = self.program.target(name, self.state.phase)
        if found is None:
            raise ActionFailed(f"there is no topic or phase {name}")
        return found

    # -- texts and expressions --------------------------------------------------------------------------------------

    def text(self, template: Template | None, names: Mapping[str, Value] | None = None) -> str:
        """Return a rendered text; `names` are additional names. Raises ActionFailed."""
        return self.wording(template, names).text

    def wording(self, template: Template | None, names: Mapping[str, Value] | None = None) -> Evaluation:
        """Return a rendered text with the ranges that came from values. Raises ActionFailed."""
        if template is None or "{" not in template.source:
            return Evaluation(template.source if template is not None else "")
        return self._evaluate(template, names)

    def value(self, expression: Expression, names: Mapping[str, Value] | None = None) -> Value:
        """Return the value of an expression; `names` are additional names. Raises ActionFailed."""
        return self._evaluate(expression, names).value

    def holds(self, condition: Expression | None, names: Mapping[str, Value] | None = None) -> bool:
        """Return whether a condition holds or is None; one that fails to evaluate is false and adds a warning."""
        if condition is None:
            return True
        try:
            return bool(self._evaluate(condition, names).value)
        except ActionFailed as error:
            self.warn("expression_failed", str(error))
            return False

    def _evaluate(self, source: Template | Expression, names: Mapping[str, Value] | None = None) -> Evaluation:
        """Return the result of a text or expression, and record its problems as warnings. Raises ActionFailed."""
        try:
            rendered = source.compiled.evaluate(Names(self, names or {}))
        except ExpressionFailed as error:
            raise ActionFailed(f"line {source.at.line}: {error}") from error
        for failure in rendered.failures:
            self.warn("expression_failed", f"line {source.at.line}: {failure}")
        for name in rendered.unset:
            self.warn("undefined_variable", f"`{name}` has no value")
        for mismatch in dict.fromkeys(rendered.mismatches):
            self.warn("not_comparable", mismatch)
        return rendered

    # -- memory searches ----------------------------------------------------------------------------------------------

    def recall_question(
        self, query: str, by: By, *, k: int | None = None, filters: Value = None, min_score: float | None = None
    ) -> RecallQuestion | None:
        """Return a search by the script's memory settings, or None if memory is off or the query is blank."""
        plan = self.program.script.memory
        if plan.strategy == "off" or not query.strip():
            return None
        # what a model sees anyway is not searched; system messages do not count
        in_sight = (each.number for each in self.view().messages if each.role != "system")
        wish = RecallWish(
            query=cut_text(query.strip(), QUERY_CHARS_MAX),
            k=k or plan.k,
            strategy=plan.strategy,
            filters=filters,
            min_score=min_score,
            context=plan.context,
            half_life_days=plan.decay.half_life_days if plan.decay is not None else None,
            floor=plan.decay.floor if plan.decay is not None else 1.0,
            in_sight=min(in_sight, default=self.state.message_seq + 1),
            now=self.now(),
        )
        return RecallQuestion(wish, plan.chars_max, self.action_id, by)

    async def recall(self, search: RecallQuestion | None) -> RecallResult:
        """Make a search and return its result. Raises MemoryFailed, RecallsExceeded, LimitExceeded."""
        if search is None:
            return RecallResult()
        try:
            await self.recalls.search(search)
            return self.recalls.take_result(search)
        finally:
            self._record_recall(self.recalls.event(search))

    def recall_in_text(self, query: str, k: int | None) -> Recollections:
        """Return the results of a search made by a text that is being rendered. Raises RecallWanted, MemoryFailed."""
        search = self.recall_question(query, "text", k=k)
        if search is None:
            return Recollections()
        recalled = self.recalls.take_result(search)
        self._record_recall(self.recalls.event(search))
        return recollections(recalled)

    def record_remaining_recalls(self) -> None:
        """Record the searches that have no event yet, because the part of the turn that made them was undone.

        Raises LimitExceeded.
        """
        for event in self.recalls.events.values():
            self._record_recall(event)

    def _record_recall(self, event: Recollected | None) -> None:
        if event is not None and all(each.body is not event for each in self.events):
            self.record(event)

    # -- time, history and model calls --------------------------------------------------------------------------------

    def now(self) -> datetime:
        """Return the time of the turn; it is constant, so that a replay gives the same results."""
        return self._now

    def zone(self) -> tzinfo:
        """Return the session's time zone."""
        return self.program.zone(self.state, self.default_zone)

    def local_now(self) -> datetime:
        """Return the time of the turn in the session's time zone."""
        return self._now.astimezone(self.zone())

    def today(self) -> date:
        """Return the date of the turn in the session's time zone."""
        return self.local_now().date()

    def history(self) -> tuple[Message, ...]:
        """Return the last messages of the session, oldest first."""
        return tuple(self._history[-HISTORY_MAX:])

    def view(self, action: Action | None = None) -> View:
        """Return the part of the conversation that a model sees at an action (None: the current action)."""
        if action is None and self.action_id:
            action = self.program.action(*self.home(), self.action_id)
        return view_of(self.contexts.choose(self.program.script, self.state, action), self._history, self.state.context)

    def conversation(self, messages_max: int) -> tuple[Message, ...]:
        """Return up to `messages_max` last messages, and the system messages at the beginning of the conversation."""
        return newest(self._history, messages_max)

    def last_heard(self) -> str:
        """Return the user's last message in the loaded history."""
        said = (each.content for each in reversed(self._history) if each.role == "user" and each.content.strip())
        return next(said, "")


def _reword(progress: Progress | None, text: str, instead: str) -> Progress | None:
    """Return the progress with its prompt and complaint replaced where they equal a certain text."""
    if progress is None:
        return None
    changed = {name: instead for name in ("prompt", "complaint") if text and getattr(progress, name) == text}
    return msgspec.structs.replace(progress, **changed) if changed else progress


# -- names in texts and expressions ------------------------------------------------------------------------------------


class Names:
    """The names at this point of a turn: a loop's item, a built-in, or a variable."""

    def __init__(self, run: TurnContext, names: Mapping[str, Value]) -> None:
        self._run = run
        self._names = names

    def value_of(self, name: str) -> object:
        """Return the value of a name, or MISSING if it has none."""
        if name in self._names:
            return self._names[name]
        for frame in reversed(self._run.state.frames):
            if frame.home is not None:
                break  # the loops around a call are not visible in the skill or interrupt
            if frame.item_name == name and frame.items is not None:
                return frame.items[frame.passes]
        if name in _BUILTINS:
            return _BUILTINS[name](self._run)
        found = self._run.scopes.find(name)
        return MISSING if found is None or found[1] is None else found[1]


class _Variables(Mapping[str, object]):
    """``vars``: the variables by name, for names that are not identifiers."""

    def __init__(self, run: TurnContext) -> None:
        self._run = run

    def __getitem__(self, name: str) -> object:
        found = self._run.scopes.find(name)
        if found is None or found[1] is None:
            raise KeyError(name)
        return found[1]

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys((*self._run.program.global_names, *self._run.scopes.in_sight()))
        return (name for name in names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _history_function(run: TurnContext) -> Callable[[int], list[Value]]:
    def history(n: int = 10) -> list[Value]:
        if not isinstance(n, int) or not 1 <= n <= HISTORY_MAX:
            raise ExpressionFailed(f"history takes a number from 1 to {HISTORY_MAX}")
        return [{"role": message.role, "content": message.content} for message in run.history()[-n:]]

    return history


def _recall_function(run: TurnContext) -> Callable[..., Recollections]:
    def recall(query: object, k: int | None = None) -> Recollections:
        if k is not None and (not isinstance(k, int) or not 1 <= k <= K_MAX):
            raise ExpressionFailed(f"recall takes a k from 1 to {K_MAX}")
        return run.recall_in_text(to_text(query), k)

    return recall


def _speaker(roles: Mapping[str, SpeakerRole], role: str) -> Speaker:
    """Return the speaker of a role; a role that the script does not describe has its id as its name."""
    known = roles.get(role) or SpeakerRole(id=role)
    parts = {part: getattr(known, part) for part in SPEAKER_PARTS}
    return Speaker(role, parts | {"name": known.name or role})


_BUILTINS: Mapping[str, Callable[[TurnContext], object]] = {
    "now": TurnContext.local_now,
    "today": TurnContext.today,
    "round": lambda run: run.state.progress.round if run.state.progress else 0,
    "user": lambda run: {"id": run.state.user_id},
    "role": lambda run: _speaker(run.program.roles, run.role),
    "history": _history_function,
    "recall": _recall_function,
    "vars": _Variables,
    "visits()": lambda run: lambda place: run.state.entered.get(place, 0),
    "minutes_spent()": lambda run: lambda phase: int(run.state.awake.get(phase, 0.0) // 60),
}
