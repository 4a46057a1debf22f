"""What a language model would be asked for an action, without a conversation: its requests are listened to."""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from api.app import utc_now
from api.random_ids import new_id
from runtime import detection, interrupts
from runtime.actions import asking, chatting, filling, speaking
from runtime.budgets import Unmetered
from runtime.calls import NoJournal
from runtime.context.chosen import Contexts
from runtime.ports import Hear, ModelReply, ModelRequest
from runtime.program import Program
from runtime.recalls import Recalls
from runtime.run import ActionFailed, Limits, Run
from runtime.scopes import WriteRefused
from runtime.state import Frame, State
from scripts.actions import Action, AiAsk, AiSay, AiThink, Ask, Chat, Form, walk
from scripts.model import Locale, Script
from scripts.values import Value


class NothingAsked(ValueError):
    """There is no such request to be shown; the message says why."""


class Place(Struct, frozen=True):
    """An action, and the topic or skill it is in; a skill has no phase."""

    phase: str
    topic: str
    action: Action


class _Listening:
    """A model that only remembers what it was asked, and is content with everything."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def goes_to(self, request: ModelRequest) -> str:
        """None."""
        return ""

    async def complete(self, request: ModelRequest, hear: Hear | None = None) -> ModelReply:
        """Lets the action go on to what else it asks."""
        self.requests.append(request)
        return ModelReply(exit=True)


def places_of(script: Script, wanted: str) -> list[Place]:
    """The actions of an id, or of ``phase/topic/id`` (``skill/id``)."""
    topics = [(phase.id, topic.id, topic.actions) for phase in script.phases for topic in phase.topics]
    topics += [("", skill.id, skill.actions) for skill in script.skills]
    places = [Place(phase, topic, each) for phase, topic, actions in topics for each in walk(actions)]
    return [each for each in places if wanted in {each.action.id, path_of(each)}]


def path_of(place: Place) -> str:
    """An action's id within its script."""
    return "/".join(part for part in (place.phase, place.topic, place.action.id) if part)


def request_of(
    program: Program, place: Place, purpose: str, locale: Locale, reply: str | None, variables: Mapping[str, Value]
) -> ModelRequest:
    """The request an action makes for a purpose, at its first reply or before it. Raises NothingAsked."""
    model = _Listening()
    state = State(seed=0, locale=locale, user_id="preview", phase=place.phase, topic=place.topic)
    if not place.phase:
        first = program.script.phases[0]
        state.phase, state.topic = first.id, first.topics[0].id
        state.frames.append(Frame(place.action.id, skill=place.topic))
    run = Run(
        program,
        state,
        model=model,
        clock=utc_now,
        ids=new_id,
        limits=Limits(),
        history=(),
        journal=NoJournal(),
        meter=Unmetered(),
        live=None,
        now=None,
        contexts=Contexts(),
        recalls=Recalls(None, recalls_max=Limits().recalls_max, recall_s=Limits().recall_s),
    )
    run.action_id = place.action.id
    try:
        for name, value in variables.items():
            run.assign_in("topic" if state.frames else "session", name, value, "api")
        asyncio.run(_carry_out(run, place.action, purpose, reply))
    except (ActionFailed, WriteRefused) as error:
        raise NothingAsked(str(error)) from error
    found = next((request for request in model.requests if request.purpose == purpose), None)
    if found is None:
        when, hint = ("before any reply", "; give one with --reply") if reply is None else ("at this reply", "")
        others = ", ".join(dict.fromkeys(request.purpose for request in model.requests))
        instead = f", but to {others}" if others else ""
        raise NothingAsked(f"{path_of(place)} asks no model to {purpose} {when}{instead}{hint}")
    return found


async def _carry_out(run: Run, action: Action, purpose: str, reply: str | None) -> None:
    """Has the action do what it does at its beginning, or at its first reply."""
    if reply is not None:
        run.hear(reply)
    match action, purpose, reply:
        case _, "route", str():
            await interrupts.brought_up(run, action, reply, ())
        case _, "detect", str():
            await detection.of_user(run)
        case AiSay(), _, _:
            await speaking.ai_say(run, action, reply)
        case AiAsk(), _, None:
            await asking.ai_ask(run, action)
        case AiAsk(), _, str():
            await asking.answer_ai_ask(run, action, reply)
        case Ask(), _, str():
            await asking.answer_ask(run, action, reply, None)
        case AiThink(), _, _:
            await asking.ai_think(run, action)
        case Chat(), _, None:
            await chatting.chat(run, action)
        case Chat(), _, str():
            await chatting.answer_chat(run, action, reply)
        case Form(), _, str():
            await filling.answer_form(run, action, reply, None)
        case _:
            pass
