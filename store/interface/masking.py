"""The columns that are masked in analytics files, listed in `masking.yaml`.

Queries, snapshots, Parquet, masked exports of sessions and the check of analytics files follow this one list.

A column that is not listed is visible to every role. `tests/api/analytics/test_masked_columns.py` lists every column of
the model as masked or visible, so that the test fails for a new column until someone has decided.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

Treatment: TypeAlias = Literal["pseudonym", "words", "digest", "flag", "value", "label", "fields"]
"""How a column is masked.

pseudonym: a keyed digest of an id that an application chose; the key never leaves the data folder.
words: NULL in analytics; in an export, the text without personal values.
digest: NULL in analytics, empty in an export: a digest would confirm a guess of the missing part of a text.
flag: NULL and empty are unchanged; any other text is replaced by `HIDDEN`, so that it is still counted.
value: NULL if the variable is personal, or holds a text, a list or a record.
label: unchanged if it is a value of a closed set or a text of the script; other texts are masked.
fields: only the fields of `store.interface.event_fields`.
"""

HIDDEN = "[hidden]"
"""Replaces a text in a column where queries need to know that there is one."""

MASKED: Mapping[str, Mapping[str, Treatment]] = msgspec.yaml.decode(
    Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, dict[str, Treatment]]
)
"""Treatments by table and column."""
