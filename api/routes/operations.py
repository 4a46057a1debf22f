"""Whether the server lives, whether it can take turns, and what it counts."""

from importlib.metadata import version
from typing import Any

from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from prometheus_client import CONTENT_TYPE_LATEST

from api.caller import caller_of
from api.memory.house import House
from api.metrics import Metrics
from api.models import state_of
from api.running import Running
from api.schemas.operations import Health, Readiness
from store.record import Record


@get("/health", summary="Whether the process lives")
async def health() -> Health:
    """The process is alive."""
    return Health(status="ok", version=version("cuebook"))


@get("/ready", summary="Whether turns can be taken")
async def ready(
    record: NamedDependency[Record],
    running: NamedDependency[Running],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
) -> Response[Readiness]:
    """503 while the record cannot be written. A model or an embedder that is left alone for a moment does not make the
    server unready: much of what it does needs none. What was looked at is only for those who have a key, where keys are
    asked for.
    """
    trouble = record.ready()
    checks = {
        "record": trouble or "ok",
        "writerLag": f"{record.writer_lag_s:.3f} s",
        "model": state_of(running.model),
        "embedder": house.embedding.state,
        "memory": f"{house.work.waiting} to be worked on",
    }
    shown = checks if caller_of(request).roles else {}
    return Response(Readiness(ready=trouble is None, checks=shown), status_code=200 if trouble is None else 503)


@get("/metrics", summary="What the server counts, for Prometheus", media_type="text/plain")
async def metrics(metrics: NamedDependency[Metrics]) -> Response[bytes]:
    """Of all tenants together, so only for `admin` of the tenant `default`."""
    return Response(metrics.exposed(), headers={"Content-Type": CONTENT_TYPE_LATEST})


router = Router("", route_handlers=[health, ready, metrics], tags=["Operations"])
