"""A script each of whose turns calls a model once, and a model that counts its calls."""

import asyncio

from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelReply, ModelRequest, OnReply
from tests.support.api_client import ApiClient, Json

ADVICE = """\
script: advice
phases:
- phase: main
  topics:
  - topic: talk
    actions:
    - repeat: {until: "worry == 'stop'", max: 1000}
      id: loop
      do:
      - ask: What is on your mind?
        id: next
        output: [{get: worry}]
      - ai_say: Answer in one sentence about {{ worry }}.
        id: answer
"""


class CountingModel(OfflineModel):
    """Numbers its replies; a call takes `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds
        self.calls = 0
        self.may_answer = asyncio.Event()
        """While it is not set, a call does not end."""
        self.may_answer.set()

    def goes_to(self, request: ModelRequest) -> str:
        """Return a name, so that its calls are in the journal."""
        return "counting"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self.calls += 1
        reply = f"Advice {self.calls}."
        await asyncio.sleep(self.seconds)
        await self.may_answer.wait()
        return ModelReply(text=reply)


async def advice_of(api: ApiClient, session: Json) -> list[str]:
    """Return the model's replies that a session has."""
    return [said for role, said in await api.transcript(session) if role == "assistant" and said.startswith("Advice")]
