"""The numbers that settings take."""

from typing import Annotated, TypeAlias

from msgspec import Meta

Count: TypeAlias = Annotated[int, Meta(ge=1)]
Amount: TypeAlias = Annotated[float, Meta(gt=0)]
"""Of seconds, or of money."""
