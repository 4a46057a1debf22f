"""The names the runtime gives to every text and expression, and what each of them holds: its members.

`scripts.sandbox` looks members up by these tables, and the checker compares with them what a script asks for.
"""

from collections.abc import Mapping

from msgspec import Struct

BUILTINS = frozenset({"now", "today", "round", "user", "role", "history", "recall", "vars", "range"})
"""Names the runtime gives to every template and expression; no variable may be called so."""

TEXT_METHODS = frozenset(
    {"upper", "lower", "strip", "title", "capitalize", "startswith", "endswith", "split", "count", "find", "isdigit"}
)
DATE_PARTS = frozenset({"year", "month", "day", "hour", "minute", "weekday", "isoformat", "date"})
LOOP_PARTS = frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length"})
SPEAKER_PARTS = frozenset({"id", "name", "type", "tone", "define", "desc", "pic", "attributes"})


class Speaker(str):
    """`role`: the id of the role that speaks, as a text, with what the script says of the role as its members."""

    _parts: Mapping[str, object]

    def __new__(cls, role: str, parts: Mapping[str, object]) -> "Speaker":
        """`parts` has each of `SPEAKER_PARTS`."""
        speaker = super().__new__(cls, role)
        speaker._parts = parts
        return speaker

    def part(self, name: str) -> object:
        """One of `SPEAKER_PARTS`."""
        return self._parts[name]


class Kind(Struct, frozen=True):
    """What values a name or member has. A member of None may be anything, and so may those of an open record."""

    members: Mapping[str, "Kind | None"] = {}
    is_record: bool = False  # a member that it does not have is no value
    is_open: bool = False
    is_sayable: bool = True  # can be shown in a text and kept in a variable
    item: "Kind | None" = None
    example: str = ""  # of a call; only functions have one
    returns: "Kind | None" = None


def _functions(names: frozenset[str]) -> dict[str, Kind]:
    return {name: Kind(example=f"{name}()") for name in names}


_NUMBER = Kind()
_TEXT = Kind(_functions(TEXT_METHODS), item=Kind(_functions(TEXT_METHODS)))
_RECORD = Kind(is_record=True, is_open=True)
_DAY = Kind(dict.fromkeys(("year", "month", "day"), _NUMBER) | _functions(frozenset({"weekday", "isoformat"})))
_MOMENT = Kind(
    {**_DAY.members, "hour": _NUMBER, "minute": _NUMBER, "date": Kind(example="date()", returns=_DAY)},
)
_MESSAGE = Kind({"role": _TEXT, "content": _TEXT}, is_record=True)
_MEMORY = Kind(
    {"text": _TEXT, "source": _TEXT, "time": _TEXT, "score": _NUMBER, "metadata": _RECORD, "around": Kind(item=_TEXT)},
    is_record=True,
)
LOOP = Kind(dict.fromkeys(LOOP_PARTS - {"first", "last"}, _NUMBER) | {"first": None, "last": None}, is_sayable=False)
DETECTED = "detected"
KINDS: Mapping[str, Kind] = {
    "now": _MOMENT,
    "today": _DAY,
    "round": _NUMBER,
    "user": Kind({"id": _TEXT}, is_record=True),
    "role": Kind({**_TEXT.members, **dict.fromkeys(SPEAKER_PARTS, _TEXT), "attributes": _RECORD}, item=_TEXT),
    "history": Kind(example="history(5)", returns=Kind(item=_MESSAGE)),
    "recall": Kind(example="recall('sleep')", returns=Kind(item=_MEMORY)),
    "range": Kind(example="range(3)", returns=Kind(item=_NUMBER)),
    "vars": Kind(is_record=True, is_open=True, is_sayable=False),
    DETECTED: Kind(
        {"detector": _TEXT, "label": _TEXT, "by": _TEXT, "note": _TEXT, "message": _TEXT, "score": _NUMBER}
        | {"severity": _NUMBER, "words": Kind(item=_TEXT), "now": _RECORD, "before": _RECORD}
        | {"measured": Kind(item=_RECORD)},
        is_record=True,
    ),
}
"""The built-in names, and `detected`, which only what a detector sets off has."""
