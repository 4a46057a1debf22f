"""The fields of events that contain no personal text: the one list that retention and masking follow.

`event_fields.yaml` lists the retained fields by kind of event; a field or a kind that is not listed is removed. Ids,
numbers and values of closed sets are retained. Texts, values, notes, questions and reasons are removed.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

EVENT_FIELDS: Mapping[str, tuple[str, ...]] = msgspec.yaml.decode(
    Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, tuple[str, ...]]
)
"""The retained fields of the data, by kind; `a.b` is a field of an object, `a[].b` one of each object in a list."""
