"""The requests that an action makes to a language model, captured without a conversation."""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from api.schemas.ids import new_id
from api.schemas.timestamps import utc_now
from runtime.actions import ask, dispatch
from runtime.engine import detection, interrupts
from runtime.state.limits import Limits
from runtime.state.ports import ModelReply, ModelRequest, OnReply
from runtime.state.program import Program
from runtime.state.scopes import WriteRefused
from runtime.state.state import Frame, State
from runtime.turn.context import ActionFailed, TurnContext, TurnEnvironment
from scripts.expressions.values import Value
from scripts.model.actions import Action, AiAsk, AiSay, AiThink, Ask, Chat, Form, walk
from scripts.model.script import Locale, Script


class NoPromptFound(ValueError):
    """The action makes no such request; the message says why."""


class PromptPlace(Struct, frozen=True):
    """An action, and the topic or skill it is in; a skill has no phase."""

    phase: str
    topic: str
    action: Action


class _CapturingModel:
    """A model that stores its requests, and lets every action continue."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def goes_to(self, request: ModelRequest) -> str:
        """Return an empty text: there is no model."""
        return ""

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        """Store the request; the reply lets the action continue with its further requests."""
        self.requests.append(request)
        return ModelReply(exit=True)


def places_of(script: Script, wanted: str) -> list[PromptPlace]:
    """Return the actions with an id, or with a path ``phase/topic/id`` (``skill/id``)."""
    topics = [(phase.id, topic.id, topic.actions) for phase in script.phases for topic in phase.topics]
    topics += [("", skill.id, skill.actions) for skill in script.skills]
    places = [PromptPlace(phase, topic, each) for phase, topic, actions in topics for each in walk(actions)]
    return [each for each in places if wanted in {each.action.id, path_of(each)}]


def path_of(place: PromptPlace) -> str:
    """Return the path of an action within its script."""
    return "/".join(part for part in (place.phase, place.topic, place.action.id) if part)


def request_of(
    program: Program,
    place: PromptPlace,
    purpose: str,
    locale: Locale,
    reply: str | None,
    variables: Mapping[str, Value],
) -> ModelRequest:
    """Return the request that an action makes for a purpose, at its first reply or before it. Raises NoPromptFound."""
    model = _CapturingModel()
    state = State(seed=0, locale=locale, user_id="preview", phase=place.phase, topic=place.topic)
    if not place.phase:
        first = program.script.phases[0]
        state.phase, state.topic = first.id, first.topics[0].id
        state.frames.append(Frame(place.action.id, skill=place.topic))
    run = TurnContext(program, state, TurnEnvironment(model=model, ids=new_id, limits=Limits(), now=utc_now()))
    run.action_id = place.action.id
    try:
        for name, value in variables.items():
            run.assign_in("topic" if state.frames else "session", name, value, "api")
        asyncio.run(_carry_out(run, place.action, purpose, reply))
    except (ActionFailed, WriteRefused) as error:
        raise NoPromptFound(str(error)) from error
    found = next((request for request in model.requests if request.purpose == purpose), None)
    if found is None:
        when, hint = ("before any reply", "; give one with --reply") if reply is None else ("at this reply", "")
        others = ", ".join(dict.fromkeys(request.purpose for request in model.requests))
        instead = f", but to {others}" if others else ""
        raise NoPromptFound(f"{path_of(place)} asks no model to {purpose} {when}{instead}{hint}")
    return found


async def _carry_out(run: TurnContext, action: Action, purpose: str, reply: str | None) -> None:
    """Run the beginning of the action, or its first reply."""
    if reply is not None:
        run.hear(reply)
    if reply is not None and purpose == "route":
        await interrupts.interrupt_of(run, action, reply, ())
    elif reply is not None and purpose == "detect":
        await detection.of_user(run)
    elif reply is not None and isinstance(action, AiSay | Ask | AiAsk | Chat | Form):
        await dispatch.resume(run, action, None, reply, None, None)
    elif reply is None and isinstance(action, AiAsk):
        await ask.ai_ask(run, action)  # also if its values are known
    elif isinstance(action, AiSay | AiThink | Chat):
        await dispatch.enter(run, action)
