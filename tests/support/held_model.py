"""A model whose answer a test holds back."""

import asyncio

from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelReply, ModelRequest, OnReply


class HeldModel(OfflineModel):
    """The offline model, which answers only after `go`; `asked` is set by the first request."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self.asked.set()
        await self.go.wait()
        return await OfflineModel().complete(request)
