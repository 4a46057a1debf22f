"""Retention: what is due by the policies of the settings, and dropping it."""

import msgspec
from litestar import Router, get, post
from litestar.di import NamedDependency

from api.errors import described
from api.retention import Retention
from api.schemas.retention import PolicyView, RetentionDone, RetentionStep, RetentionView


@get("/operations/retention", summary="What retention would drop", responses=described("SERVER_BUSY"))
async def due(retention: NamedDependency[Retention]) -> RetentionView:
    """What each policy would drop now, and how far the run is that is under way. Nothing is changed."""
    found = {each.number: each for each in await retention.look()}
    policies = []
    for number, policy in enumerate(retention.policies):
        held = found.get(number)
        policies.append(
            PolicyView(
                after_days=policy.after_days,
                drop=policy.drop,
                script=policy.script,
                tenant=policy.tenant,
                status=policy.status,
                sessions=held.sessions if held is not None else 0,
                turns=held.turns if held is not None else 0,
                messages=held.messages if held is not None else 0,
                bytes=held.bytes if held is not None else 0,
                oldest=held.oldest if held is not None else None,
            )
        )
    running = retention.progress
    step = RetentionStep(**msgspec.structs.asdict(running)) if running is not None else None
    return RetentionView(policies=policies, running=step)


@post(
    "/operations/retention",
    status_code=200,
    summary="Drop what is due",
    description="By the policies of the settings. Turns go on meanwhile; a session that is being talked to is passed "
    "over. The bytes leave the file when the record is compacted.",
    responses=described("RETENTION_RUNNING", "SERVER_BUSY"),
)
async def apply(retention: NamedDependency[Retention]) -> RetentionDone:
    """How many sessions lost their text, or went."""
    return RetentionDone(**msgspec.structs.asdict(await retention.apply()))


router = Router("/api", route_handlers=[due, apply], tags=["Operations"])
