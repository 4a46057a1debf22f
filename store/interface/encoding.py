"""Encode rows as JSON, in the one form in which all databases store them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from store.interface.errors import RowRefused

_encoder = msgspec.json.Encoder()


def encode(row: msgspec.Struct | Mapping[str, Any]) -> bytes:
    """Encode a row, or a value of a row, as JSON.

    Raises RowRefused for values that JSON cannot represent: lone surrogates, integers beyond 64 bits, other types.
    """
    try:
        return _encoder.encode(row)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise RowRefused(f"a {type(row).__name__.strip('_')} cannot be written as JSON: {error}") from error
