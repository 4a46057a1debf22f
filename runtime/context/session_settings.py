"""Reads the settings of a conversation by the names of seed 001, such as `session.mode` and `session.limit`."""

import warnings
from collections.abc import Mapping

from scripts.contexts import ContextSettings, SettingsInvalid, read_settings

LEGACY = {
    "session.resize.max_current_chars": "session.limit.chars",
    "session.resize.keep_last_messages": "session.limit.messages",
}
"""Names that had a meaning once, and the ones that have it now."""

_MODES = ("lite", "memo")


class LegacySetting(UserWarning):
    """A setting by a name that has no effect any more; the message says which one has."""


def session_settings(settings: Mapping[str, object]) -> ContextSettings:
    """The settings in a record, whose names may be written with dots or as records within records.

    Raises SettingsInvalid for a name that is none, or a value that does not do.
    """
    tree = _tree(settings)
    session = tree.pop("session", {})
    if tree or not isinstance(session, dict):
        raise SettingsInvalid(f"the settings of a conversation stand under `session`, not under {', '.join(tree)}")
    mode = session.pop("mode", "lite")
    given = {name: value for name, value in session.items() if value is not None}
    return read_settings({"strategy": checked_mode(mode), **given})


def checked_mode(mode: object) -> str:
    """A mode of a conversation. Raises SettingsInvalid."""
    if mode not in _MODES:
        raise SettingsInvalid(f"the mode of a conversation is lite or memo, not {mode!r:.40}")
    return str(mode)


def _tree(given: Mapping[str, object]) -> dict[str, object]:
    tree: dict[str, object] = {}
    for path, value in _leaves(given, ""):
        if path in LEGACY:
            warnings.warn(f"{path} has no effect; set {LEGACY[path]}", LegacySetting, stacklevel=4)
            continue
        *above, name = path.split(".")
        place = tree
        for each in above:
            within = place.setdefault(each, {})
            if not isinstance(within, dict):
                raise SettingsInvalid(f"{path} stands within a setting that is a value")
            place = within
        place[name] = value
    return tree


def _leaves(given: Mapping[str, object], above: str) -> list[tuple[str, object]]:
    """Every value with its whole name."""
    found: list[tuple[str, object]] = []
    for name, value in given.items():
        path = f"{above}.{name}" if above else name
        found += _leaves(value, path) if isinstance(value, Mapping) else [(path, value)]
    return found
