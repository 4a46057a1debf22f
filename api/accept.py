"""What a client wants to be answered with: JSON, or a stream of events."""

import re

from api.frames import EVENT_STREAM

JSON = "application/json"
RANGES_MAX = 50

_QUALITY = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


def wants_stream(accept: str | None) -> bool:
    """Whether an `Accept` header prefers a stream of events.

    Of two equal wishes the one counts that is named and not only included; JSON is the default (RFC 9110, 12.5.1).
    """
    ranges = dict(_range(each) for each in (accept or "").split(",")[:RANGES_MAX])
    stream = _wish(ranges, EVENT_STREAM)
    return stream[0] > 0 and stream > _wish(ranges, JSON)


def _wish(ranges: dict[str, float], media_type: str) -> tuple[float, int]:
    """How much a media type is wanted, and how closely the range names it that says so."""
    kind = media_type.split("/")[0]
    for closeness, name in ((2, media_type), (1, f"{kind}/*"), (0, "*/*")):
        if name in ranges:
            return ranges[name], closeness
    return 0.0, 0


def _range(text: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    quality = next((each.removeprefix("q=") for each in parameters if each.startswith("q=")), "1")
    return name, float(quality) if _QUALITY.fullmatch(quality) else 0.0
