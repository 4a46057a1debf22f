"""One turn being run: what an action may do to the world, and the bounds of it."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial

import msgspec
from msgspec import UNSET, Struct

from runtime import recalling
from runtime.budgets import Bounds, BudgetExceeded, Purse
from runtime.calls import CallInterrupted, Calls
from runtime.context.chosen import Contexts, newest, shown
from runtime.context.ports import Condense, View
from runtime.copies import copy_of, own_copy, take_back
from runtime.events import HISTORY_MAX, Body, Event, Message, Role, VariableChanged, Warned
from runtime.hearing import Hearing
from runtime.names import Names
from runtime.patterns import MatchWanted
from runtime.ports import (
    SPEAKING,
    Account,
    Clock,
    Ids,
    Journal,
    Live,
    MemoryFailed,
    Meter,
    Model,
    ModelFailed,
    ModelReply,
    ModelRequest,
    Purpose,
    Watched,
)
from runtime.program import PlaceLost, Program
from runtime.recalls import Recalls, RecallsExceeded, RecallWanted
from runtime.scopes import Scopes, WriteRefused
from runtime.speech import Speech
from runtime.state import Progress, Source, State
from scripts.actions import Action, AiAsk, AiSay, Chat, ModelStep
from scripts.expressions import Rendered, Spans, compile_expression, compile_template
from scripts.model import Scope
from scripts.nodes import Expression, Template
from scripts.sandbox import ExpressionFailed
from scripts.values import Value
from scripts.variables import Assignment, Output, Records


class Limits(Struct, frozen=True):
    """What one turn may cost."""

    actions_max: int = 1_000
    model_calls_max: int = 50
    output_chars_max: int = 100_000
    events_max: int = 10_000
    state_bytes_max: int = 1_000_000
    turn_s: float = 120.0
    context_s: float = 20.0  # of it, for an account of the conversation
    recalls_max: int = 20  # questions to memory
    recall_s: float = 10.0  # of the turn's time, for each of them
    turn_budget: Bounds = Bounds()
    session_budget: Bounds = Bounds()


class Wording(Struct, frozen=True):
    """A text of the script, filled in; `spans` are the stretches of it that came from values."""

    text: str = ""
    spans: Spans = ()


class LimitExceeded(Exception):
    """A turn went past one of its limits; the message names it."""


class ActionFailed(Exception):
    """An action could not be carried out; the message is for the script's author."""


CONTEXT = "context"
"""Stands for an action where a model is asked for an account of the conversation, which none asks for."""

_TOLD: frozenset[Purpose] = SPEAKING | {"think"}
"""What is asked with the account of the older conversation at hand; values, verdicts and meanings are taken from what
was said, never from an account of it.
"""

FAILURES = (
    ActionFailed, LimitExceeded, WriteRefused, ModelFailed, CallInterrupted, BudgetExceeded, PlaceLost, MemoryFailed,
    RecallsExceeded,
)  # fmt: skip
"""What may go wrong in a turn; anything else is a defect."""


class Mark(Struct, frozen=True):
    """Where a turn was, to go back to."""

    state: State
    events: int
    history: tuple[Message, ...]


class Run:
    """The state being worked on and everything that happened to it so far in this turn."""

    def __init__(
        self,
        program: Program,
        state: State,
        *,
        model: Model,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        history: tuple[Message, ...],
        journal: Journal,
        meter: Meter,
        live: Live | None,
        now: datetime | None,
        contexts: Contexts,
        recalls: Recalls,
        calls_end_at: float = math.inf,
        before: "Run | None" = None,
    ) -> None:
        """`before` is the same turn, as far as it came without what had to be asked of memory first. Calls of the
        model stop at `calls_end_at`, by the event loop's clock.
        """
        self.program = program
        self.state = state
        self.contexts = contexts
        self.scopes = Scopes(program, state)
        self.limits = limits
        self.events: list[Event] = []
        self.action_id = ""
        self.recalls = recalls
        purse = Purse(state, limits.turn_budget, limits.session_budget, meter, journal.spent())
        if before is None:
            self.calls = Calls(model, journal, purse, calls_end_at)
            # where detectors watch what the session says, nobody hears a word before they have
            self.speech = Speech(None if program.watches_assistant else live)
        else:
            self.calls, self.speech = before.calls, before.speech
            self.calls.begin_again(purse)
            self.speech.begin_again()
        self._now = now or clock()
        self._ids = ids
        self._history = list(history)
        self._first_number = state.message_seq + 1  # of the turn's own messages
        self._actions = 0
        self._output_chars = 0

    # -- what happened --------------------------------------------------------------------------------------------

    def record(self, body: Body) -> None:
        """Adds an event, numbered. Raises LimitExceeded."""
        if len(self.events) >= self.limits.events_max:
            raise LimitExceeded(f"more than {self.limits.events_max:,} events in one turn")
        self.state.event_seq += 1
        self.events.append(Event(self.state.event_seq, body))

    def say(self, text: str, metadata: Mapping[str, Value] | None = None) -> None:
        """A message of the assistant's; nothing is said for a blank text. Raises LimitExceeded."""
        if not text.strip() and not metadata:
            return
        metadata = {**(metadata or {}), **self._speaker(self.role)}
        self._output_chars += len(text) + sum(len(str(value)) for value in (metadata or {}).values())
        if self._output_chars > self.limits.output_chars_max:
            raise LimitExceeded(f"more than {self.limits.output_chars_max:,} characters said in one turn")
        self.speech.said(self.state.message_seq + 1, self.action_id, text)
        self._message("assistant", text, metadata)

    def hear(self, text: str, metadata: Mapping[str, Value] | None = None) -> None:
        """A message of the user's."""
        self.state.heard += 1
        self._message("user", text, {**(metadata or {}), **self._speaker(self.state.human_role)})

    @property
    def role(self) -> str:
        """Who speaks now: the action's own role, else that of the scene."""
        own = self.program.action(*self.state.home(), self.action_id).role if self.action_id else ""
        return own or self.state.ai_role

    def _speaker(self, role: str) -> dict[str, Value]:
        """What clients are told of who speaks."""
        known = self.program.roles.get(role)
        if known is None:
            return {}
        return {"speaker": {"role": role, "name": known.name or role, **({"pic": known.pic} if known.pic else {})}}

    def append(self, role: Role, text: str, metadata: Mapping[str, Value]) -> None:
        """A message that was said elsewhere. Raises LimitExceeded."""
        self._message(role, text, metadata)

    def _message(self, role: Role, text: str, metadata: Mapping[str, Value]) -> None:
        self.state.message_seq += 1
        message = Message(
            number=self.state.message_seq,
            message_id=self._ids(),
            role=role,
            content=text,
            action_id=self.action_id,
            metadata=metadata,
        )
        self._history.append(message)
        self.record(message)

    def withhold(self, message: Message, text: str) -> Message:
        """Puts another text in the place of a message of this turn, which then was never said; what stands there."""
        speaker = {key: value for key, value in message.metadata.items() if key == "speaker"}
        instead = msgspec.structs.replace(message, content=text, metadata=speaker)
        self.events = [Event(each.seq, instead) if each.body is message else each for each in self.events]
        self._history = [instead if each is message else each for each in self._history]
        self.calls.withhold(message, instead)
        for frame in self.state.frames:
            if frame.held is not None:
                held = _reworded(frame.held.progress, message.content, text)
                frame.held = msgspec.structs.replace(frame.held, progress=held)
        self.state.progress = _reworded(self.state.progress, message.content, text)
        return instead

    def forget_unsaid(self) -> None:
        """Forgets all words of the model that were not said in this turn, for whatever reason."""
        self.calls.forget_unsaid({each.body.content for each in self.events if isinstance(each.body, Message)})

    def warn(self, code: str, message: str) -> None:
        """Something the script's author should know."""
        self.record(Warned(code, message, self.action_id))

    def mark(self) -> Mark:
        """Where the turn is now."""
        return Mark(copy_of(self.state), len(self.events), tuple(self._history))

    def back_to(self, mark: Mark) -> None:
        """Takes back everything since a mark, which is used up, but for the calls of the model and what they took."""
        take_back(self.state, mark.state)
        del self.events[mark.events :]
        self._history = list(mark.history)
        self.speech.drop()

    @contextmanager
    def trial(self) -> Iterator[None]:
        """What happens within leaves no trace in the current action and the events."""
        events, seq, progress = len(self.events), self.state.event_seq, own_copy(self.state.progress)
        try:
            yield
        finally:
            del self.events[events:]
            self.state.event_seq, self.state.progress = seq, progress

    def count_action(self) -> None:
        """Counts a step of the machine. Raises LimitExceeded."""
        self._actions += 1
        if self._actions > self.limits.actions_max:
            raise LimitExceeded(
                f"more than {self.limits.actions_max:,} actions in one turn; does a loop never wait for the user?"
            )

    @property
    def progress(self) -> Progress:
        """How far the current action is."""
        if self.state.progress is None:
            self.state.progress = Progress()
        return self.state.progress

    def new_id(self) -> str:
        """An id that nothing else has."""
        return self._ids()

    def draw(self, sides: int) -> int:
        """The session's next random number from 0 up to `sides`, which follows from its seed alone."""
        self.state.draws += 1
        drawn = hashlib.blake2b(f"{self.state.seed}:{self.state.draws}".encode(), digest_size=8).digest()
        return int.from_bytes(drawn) % sides

    # -- variables --------------------------------------------------------------------------------------------------

    def assign(self, name: str, value: object, source: Source, output: Output | None = None) -> None:
        """Writes a variable where it belongs, `output` being what took the value. Raises WriteRefused."""
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
        """Writes a variable of a given scope; `by` is the action it counts as written by. Raises WriteRefused."""
        if by is None and self.action_id:
            by = (*self.state.home(), self.action_id)
        write = self.scopes.write(scope, name, value, source, self.now(), by, output)
        self.record(
            VariableChanged(
                scope=write.scope,
                name=write.name,
                old=write.old,
                new=write.new,
                type=write.type,
                source=source,
                action_id=self.action_id,
                phase_id=self.state.phase,
                topic_id=self.state.home()[1],
            )
        )

    def assign_computed(self, assignments: tuple[Assignment, ...]) -> None:
        """The ``{set, value, when}`` items of an output list, in order."""
        for each in assignments:
            if each.when is None or self.holds(each.when):
                self.assign(each.set, self.value(each.value), "script")

    # -- texts and expressions --------------------------------------------------------------------------------------

    def text(self, template: Template | None) -> str:
        """A text with its placeholders filled. Raises ActionFailed."""
        return self.wording(template).text

    def wording(self, template: Template | None) -> Wording:
        """A text with its placeholders filled, and where they stood. Raises ActionFailed."""
        if template is None or "{" not in template.source:
            return Wording(template.source if template is not None else "")
        rendered = self._noted(template, self._evaluated(template))
        return Wording(rendered.text, rendered.spans)

    def value(self, expression: Expression, given: Mapping[str, Value] | None = None) -> Value:
        """The value of an expression, with names that are given besides. Raises ActionFailed."""
        return self._noted(expression, self._evaluated(expression, given)).value

    def holds(self, expression: Expression, given: Mapping[str, Value] | None = None) -> bool:
        """Whether a condition holds; one that cannot be evaluated does not, and leaves a warning."""
        try:
            return bool(self._noted(expression, self._evaluated(expression, given)).value)
        except ActionFailed as error:
            self.warn("expression_failed", str(error))
            return False

    def _evaluated(self, source: Template | Expression, given: Mapping[str, Value] | None = None) -> Rendered:
        compiled = (
            compile_template(source.source) if isinstance(source, Template) else compile_expression(source.source)
        )
        try:
            return compiled.evaluate(Names(self, given or {}))
        except ExpressionFailed as error:
            raise ActionFailed(f"line {source.at.line}: {error}") from error

    def _noted(self, source: Template | Expression, rendered: Rendered) -> Rendered:
        for failure in rendered.failures:
            self.warn("expression_failed", f"line {source.at.line}: {failure}")
        for name in rendered.unset:
            self.warn("undefined_variable", f"`{name}` has no value")
        for mismatch in dict.fromkeys(rendered.mismatches):
            self.warn("not_comparable", mismatch)
        return rendered

    # -- the world ----------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The moment of the turn: all of it happens at one time, so that it comes out the same when it is replayed."""
        return self._now

    def history(self) -> tuple[Message, ...]:
        """The last messages of the session, oldest first."""
        return tuple(self._history[-HISTORY_MAX:])

    def view(self, action: Action | None = None) -> View:
        """What a model sees of the conversation, at an action; None: the one at hand."""
        if action is None and self.action_id:
            action = self.program.action(*self.state.home(), self.action_id)
        return shown(self.contexts.chosen(self.program.script, self.state, action), self._history, self.state.context)

    def conversation(self, messages_max: int) -> tuple[Message, ...]:
        """As many of the last messages as are at hand, and those of the system's that the conversation begins with."""
        return newest(self._history, messages_max)

    async def complete(
        self,
        purpose: Purpose,
        action: Action,
        task: Wording,
        *,
        outputs: tuple[Output, ...] = (),
        until: Wording = Wording(),  # noqa: B008  (frozen)
        reply: str | None = None,
        records: tuple[Records, ...] = (),
        intents: Mapping[str, str] | None = None,
        speak: Callable[[ModelReply], bool] | None = None,
    ) -> ModelReply:
        """Asks the model; `until` is when it is to call the action done. `speak` tells from everything but its words
        whether they are going to be said; then the user hears them as they come.

        Raises ModelFailed, LimitExceeded, CallInterrupted, BudgetExceeded.
        """
        goal, strategy = self._purpose()
        view = self.view(action)
        has_account = purpose in _TOLD and (view.summary or view.memo)
        memories = await recalling.for_prompt(self, self._last_heard() or task.text) if purpose in _TOLD else ()
        role = self.role
        speaker = self.program.roles.get(role)
        request = ModelRequest(
            purpose=purpose,
            action_id=action.id,
            round=self.progress.round,
            visit=self._visit(action.id),
            asked=self._asked(purpose),
            model=_model_of(action) or self.program.script.model,
            task=task.text,
            task_spans=task.spans,
            locale=self.state.locale,
            phrases=self.program.script.phrases,
            now=self.now(),
            outputs=outputs,
            exit=until.text,
            exit_spans=until.spans,
            criteria=isinstance(action, AiSay | AiAsk | Chat) and action.exit_criteria is not None,
            reply=reply,
            known=dict(self.progress.values),
            replies=tuple(self.progress.replies),
            history=view.messages,
            account=Account(summary=view.summary, memo=view.memo) if has_account else UNSET,
            memories=memories or UNSET,
            records=records,
            role=role,
            speaker=speaker,
            listener=self.program.roles.get(self.state.human_role),
            tone=action.tone or (speaker.tone if speaker is not None else ""),
            goal=goal,
            strategy=strategy,
            intents=intents or {},
            scheme=self.program.script.template_scheme,
        )
        return await self._ask(request, action, speak)

    async def detect(self, said: Message, watched: Mapping[str, Watched]) -> ModelReply:
        """Asks the model what some detectors look for in a message.

        Raises ModelFailed, LimitExceeded, CallInterrupted, BudgetExceeded.
        """
        request = ModelRequest(
            purpose="detect",
            action_id=said.action_id,
            round=self.state.heard,
            asked=said.number - self._first_number,
            model=self.program.script.model,
            task="",
            locale=self.state.locale,
            now=self.now(),
            reply=said.content,
            history=tuple(message for message in self.history() if message.number <= said.number),
            detectors=watched,
            scheme=self.program.script.template_scheme,
        )
        return await self._ask(request, None, None)

    async def condense(self, wish: Condense) -> ModelReply:
        """Asks the model for a shorter account of messages.

        Raises ModelFailed, LimitExceeded, CallInterrupted, BudgetExceeded.
        """
        asked, self.state.condensed = self.state.condensed, self.state.condensed + 1
        request = ModelRequest(
            purpose=wish.purpose,
            action_id=CONTEXT,
            round=self.state.heard,
            asked=asked,
            model=self.program.script.model,
            task="",
            locale=self.state.locale,
            now=self.now(),
            history=wish.messages,
            account=Account(previous=wish.previous, instruct=wish.instruct),
            scheme=self.program.script.template_scheme,
        )
        return await self._ask(request, None, None)

    async def _ask(
        self, request: ModelRequest, action: Action | None, speak: Callable[[ModelReply], bool] | None
    ) -> ModelReply:
        if len(self.calls.made) >= self.limits.model_calls_max:
            raise LimitExceeded(f"more than {self.limits.model_calls_max} calls of the model in one turn")
        own = action.on_interrupted if isinstance(action, ModelStep) else None
        hear: Hearing | None = None
        if speak is not None and self.speech.is_heard:
            hear = Hearing(self.speech, self.state.message_seq + 1, self.action_id, partial(_is_sure, speak))
        reply = await self.calls.make(request, own or self.program.script.on_interrupted, hear)
        if reply.usage is not None and reply.usage.degraded:
            self.warn("model_degraded", f"the reply of the model was not what was asked for: {reply.usage.degraded}")
        return reply

    def _last_heard(self) -> str:
        """What the user said last, of what is at hand."""
        said = (each.content for each in reversed(self._history) if each.role == "user" and each.content.strip())
        return next(said, "")

    def _purpose(self) -> tuple[str, str]:
        """Goal and strategy of the skill or topic at hand; an interrupt has none."""
        call = self.state.call()
        if call is not None and call.interrupt:
            return "", ""
        topic = self.program.skill(call.skill) if call else self.program.topic(self.state.phase, self.state.topic)
        return topic.goal, topic.strategy

    def _visit(self, action_id: str) -> int:
        """How many earlier visits of this action asked the model; the first call of a visit counts it."""
        if not self.progress.visit:
            self.progress.visit = self.state.visits.get(action_id, 0) + 1
            self.state.visits[action_id] = self.progress.visit
        return self.progress.visit - 1

    def _asked(self, purpose: Purpose) -> int:
        """Counts a call for a purpose, and says how many there were before it in this visit."""
        before = self.progress.asked.get(purpose, 0)
        self.progress.asked[purpose] = before + 1
        return before


def _reworded(progress: Progress | None, text: str, instead: str) -> Progress | None:
    """The same progress, with another text where its question or its complaint is a certain text."""
    if progress is None:
        return None
    changed = {name: instead for name in ("prompt", "complaint") if text and getattr(progress, name) == text}
    return msgspec.structs.replace(progress, **changed) if changed else progress


def _model_of(action: Action) -> str:
    return action.model if isinstance(action, ModelStep) else ""


def _is_sure(speak: Callable[[ModelReply], bool], verdict: ModelReply) -> bool:
    """Whether words are sure to be said; what goes wrong here goes wrong again where it counts."""
    try:
        return speak(verdict)
    except (*FAILURES, RecallWanted, MatchWanted):
        return False
