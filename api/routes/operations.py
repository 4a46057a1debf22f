"""Whether the server lives and whether it can take turns."""

from importlib.metadata import version

from litestar import Response, Router, get
from litestar.di import NamedDependency

from api.models import state_of
from api.running import Running
from api.schemas.operations import Health, Readiness
from store.record import Record


@get("/health", summary="Whether the process lives")
async def health() -> Health:
    """The process is alive."""
    return Health(status="ok", version=version("cuebook"))


@get("/ready", summary="Whether turns can be taken")
async def ready(record: NamedDependency[Record], running: NamedDependency[Running]) -> Response[Readiness]:
    """503 while the record cannot be written. A model that is left alone for a moment does not make the server unready:
    much of what it does needs none.
    """
    trouble = record.ready()
    checks = {"record": trouble or "ok", "writerLag": f"{record.writer_lag_s:.3f} s", "model": state_of(running.model)}
    return Response(Readiness(ready=trouble is None, checks=checks), status_code=200 if trouble is None else 503)


router = Router("", route_handlers=[health, ready], tags=["Operations"])
