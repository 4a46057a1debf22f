"""Routes for liveness, readiness and metrics."""

from importlib.metadata import version

from litestar import Response, get
from litestar.openapi.datastructures import ResponseSpec
from prometheus_client import CONTENT_TYPE_LATEST

from api.http.request import ApiRequest
from api.models import state_of
from api.schemas.operations import Health, Readiness


@get("/health", summary="Check health")
async def health() -> Health:
    """Return that the process is alive."""
    return Health(status="ok", version=version("cuebook"))


@get(
    "/ready",
    summary="Check readiness",
    responses={503: ResponseSpec(Readiness, generate_examples=False, description="Turns cannot be taken.")},
)
async def ready(request: ApiRequest) -> Response[Readiness]:
    """Return whether turns can be taken; 503 while the database cannot be written, or the server is about to stop. A
    model or an embedder that pauses after failures does not make the server unready, because many requests need
    neither. The details are shown only to callers with a key, if keys are required.
    """
    services = request.services
    store, memory_system = services.store, services.memory_system
    trouble, is_stopping = store.ready(), services.live.is_stopping
    checks = {
        "server": "stopping" if is_stopping else "ok",
        "database": trouble or "ok",
        "writerLag": f"{store.writer_lag_s:.3f} s",
        "model": state_of(services.model),
        "embedder": memory_system.embedding.state,
        "memory": f"{memory_system.worker.waiting} waiting",
    }
    details = checks if request.principal.roles else {}
    is_ready = trouble is None and not is_stopping
    return Response(Readiness(ready=is_ready, checks=details), status_code=200 if is_ready else 503)


@get("/metrics", summary="Read the metrics", media_type="text/plain")
async def metrics(request: ApiRequest) -> Response[bytes]:
    """Return metrics of all tenants together, therefore only for `admin` of the tenant `default`."""
    return Response(request.services.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST})
