"""Reads the settings of a conversation by their names of seed 001, such as `session.mode` and `session.limit`."""

import warnings
from collections.abc import Mapping

from scripts.model.context_strategies import ContextSettings, SettingsInvalid, read_settings

LEGACY = {
    "session.resize.max_current_chars": "session.limit.chars",
    "session.resize.keep_last_messages": "session.limit.messages",
}
"""Names of settings that are no longer used, and their replacements."""

_MODES = ("lite", "memo")


class LegacySetting(UserWarning):
    """A setting whose name has no effect any more; the message names its replacement."""


def session_settings(settings: Mapping[str, object]) -> ContextSettings:
    """Return the settings in a record; names may be dotted or nested records.

    Raises SettingsInvalid for an unknown name or an invalid value.
    """
    tree = _tree(settings)
    session = tree.pop("session", {})
    if tree or not isinstance(session, dict):
        raise SettingsInvalid(f"the settings of a conversation belong under `session`, not under {', '.join(tree)}")
    mode = session.pop("mode", "lite")
    values = {name: value for name, value in session.items() if value is not None}
    return read_settings({"strategy": checked_mode(mode), **values})


def checked_mode(mode: object) -> str:
    """Return a valid mode of a conversation. Raises SettingsInvalid."""
    if mode not in _MODES:
        raise SettingsInvalid(f"the mode of a conversation is lite or memo, not {mode!r:.40}")
    return str(mode)


def _tree(values: Mapping[str, object]) -> dict[str, object]:
    tree: dict[str, object] = {}
    for path, value in _leaves(values, ""):
        if path in LEGACY:
            warnings.warn(f"{path} has no effect; set {LEGACY[path]}", LegacySetting, stacklevel=4)
            continue
        *above, name = path.split(".")
        place = tree
        for each in above:
            within = place.setdefault(each, {})
            if not isinstance(within, dict):
                raise SettingsInvalid(f"{path} is nested in a setting that has a plain value")
            place = within
        place[name] = value
    return tree


def _leaves(values: Mapping[str, object], above: str) -> list[tuple[str, object]]:
    """Return every value with its full dotted name."""
    found: list[tuple[str, object]] = []
    for name, value in values.items():
        path = f"{above}.{name}" if above else name
        found += _leaves(value, path) if isinstance(value, Mapping) else [(path, value)]
    return found
