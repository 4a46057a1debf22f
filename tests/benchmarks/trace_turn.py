"""The path of one message: the frames of this project from the route to an action, and the modules that it runs.

Prints the stack at the first `say` and at the commit, and the modules with the calls in each. Run by `make trace`;
asserts nothing. A frame counts if its file is in one of the project's packages. The turn runs in a task of its own,
for which the route waits: the path is the route's frames, then those of the task.
"""

import asyncio
import collections
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from httpx import ASGITransport, AsyncClient
from measured_server import SCRIPT

from api.app import create_app
from api.settings import Settings
from runtime.models.offline_model import OfflineModel
from store.open_store import open_store

ROOT = Path(__file__).parents[2]
PACKAGES = ("api", "runtime", "scripts", "store")
ROUTE = ("api/http/routes/sessions.py", "send_message")
ACTION = ("runtime/actions/statements.py", "say")
COMMIT = ("store/duckdb/writer.py", "commit")


def module_of(frame: FrameType) -> str | None:
    """Return the project path of the frame's module; None for other people's code."""
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(ROOT):
        return None
    name = path.relative_to(ROOT)
    return str(name) if name.parts[0] in PACKAGES else None


class Trace:
    """Count calls by module, and store the stacks of the first action and of the commit that the writer receives."""

    def __init__(self) -> None:
        self.calls: collections.Counter[str] = collections.Counter()
        self.route: list[str] = []
        self.action: list[str] = []
        self.commit: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (module := module_of(frame)) is None:
            return
        self.calls[module] += 1
        if (module, frame.f_code.co_name) == ROUTE and not self.route:
            self.route = stack_of(frame)[-1:]
        if (module, frame.f_code.co_name) == ACTION and not self.action:
            self.action = stack_of(frame)
        if (module, frame.f_code.co_name) == COMMIT and not self.commit:
            self.commit = stack_of(frame)


def stack_of(frame: FrameType) -> list[str]:
    """Return the frames of this project from the outermost, each as `module:function`."""
    lines = []
    current: FrameType | None = frame
    while current is not None:
        if module := module_of(current):
            lines.append(f"{module}:{current.f_code.co_name}")
        current = current.f_back
    return lines[::-1]


async def run() -> None:
    """Begin a session, warm up with two messages, and trace the third."""
    with tempfile.TemporaryDirectory() as folder:
        scripts = Path(folder) / "scripts"
        scripts.mkdir()
        (scripts / "bench.yaml").write_text(SCRIPT)
        settings = Settings(data=Path(folder) / "data", scripts=scripts)
        app = create_app(settings, open_store(settings.data), OfflineModel())
        async with app.lifespan(), AsyncClient(transport=ASGITransport(app), base_url="http://127.0.0.1") as client:
            begun = (await client.post("/api/sessions", json={"userId": "u", "scriptId": "bench"})).json()
            path = f"/api/sessions/{begun['sessionId']}/messages"
            for _ in range(2):
                await client.post(path, json={"content": "hello"})
            await asyncio.sleep(1)  # the tasks that began with the application are at rest
            trace = Trace()
            sys.setprofile(trace)
            try:
                await client.post(path, json={"content": "hello"})
            finally:
                sys.setprofile(None)
    report(trace)


def report(trace: Trace) -> None:
    """Print the two stacks and the modules."""
    for title, stack in (("say", trace.action), ("commit", trace.commit)):
        frames = trace.route + stack
        print(f"{len(frames)} frames from the route to the {title}:")
        print("\n".join(f"  {line}" for line in frames))
    print(f"{len(trace.calls)} modules, {sum(trace.calls.values())} calls:")
    print("\n".join(f"  {count:5} {module}" for module, count in trace.calls.most_common()))


if __name__ == "__main__":
    asyncio.run(run())
