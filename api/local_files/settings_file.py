"""Load settings from cuebook.toml, then CUEBOOK_* variables, then flags; an unknown name is an error."""

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct

from api.schemas.validation_messages import humanize_validation_error, name_choices, types_at
from api.settings import SCRIPTED, Settings, SettingsInvalid
from runtime.models.hosted.settings import Secret

FILE_NAME = "cuebook.toml"
PREFIX = "CUEBOOK_"
_BUDGET = "budgets_"  # prefix of the names of budgets in variables
_MISSING = re.compile(r"Object missing required field (`[^`]*`)")
_UNKNOWN = re.compile(r"there is no setting `(.*)`")
_PLACE = re.compile(r" - at `\$\.?(.*)`$")  # in a message of msgspec
_LISTS = frozenset(each.name for each in msgspec.structs.fields(Settings) if each.type == list[str])
"""Settings that are comma-separated in variables."""
_PATHS = frozenset(each.name for each in msgspec.structs.fields(Settings) if each.type in (Path, Path | None))
_TABLES = {
    each.name: get_args(each.type)[1] for each in msgspec.structs.fields(Settings) if get_origin(each.type) is dict
}
"""The type of a table of each setting that has several by name."""


def load_settings(
    file: Path | None = None, flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Load the settings from file, environment and flags; a flag of None is not set. Raises SettingsInvalid."""
    values = dict(_from_file(file))
    from_environment = _from_environment(os.environ if environment is None else environment)
    values |= from_environment | {"budgets": values.get("budgets", {}) | from_environment.get("budgets", {})}
    values |= {name: value for name, value in (flags or {}).items() if value is not None}
    return _convert(values, "settings")


def settings_of_program(settings: Mapping[str, Any] | None, **arguments: str | None) -> Settings:
    """Load the settings of a program that embeds Cuebook: an argument that is not None replaces its setting.

    Raises SettingsInvalid.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    return load_settings(flags={**(settings or {}), **given})


def _from_file(file: Path | None) -> Mapping[str, Any]:
    path = file or Path(FILE_NAME)
    if file is None and not path.exists():
        return {}
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsInvalid(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsInvalid(f"{path}: {error}") from error
    _convert(data, str(path))
    # relative paths in a file are relative to the folder of the file
    for table in data.get("memories", {}).values():
        table["path"] = _beside(path, table["path"])
    if (model := data.get("model", "")).startswith(SCRIPTED) and model != SCRIPTED:
        data["model"] = SCRIPTED + _beside(path, model.removeprefix(SCRIPTED))
    return {name: _beside(path, value) if name in _PATHS else value for name, value in data.items()}


def _beside(file: Path, path: str) -> str:
    return str(file.parent / Path(path).expanduser())


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {
        name.removeprefix(PREFIX).lower(): value for name, value in environment.items() if name.startswith(PREFIX)
    }
    budgets = {name: values.pop(name) for name in list(values) if name.startswith(_BUDGET)}
    values = {
        name: [*filter(None, map(str.strip, value.split(",")))] if name in _LISTS else value
        for name, value in values.items()
    }
    for name, value in values.items():
        _convert({name: value}, PREFIX + name.upper())
    for name, value in budgets.items():
        _convert({"budgets": {name.removeprefix(_BUDGET): value}}, PREFIX + name.upper())
    return values | {"budgets": {name.removeprefix(_BUDGET): value for name, value in budgets.items()}}


def _convert(values: Mapping[str, Any], origin: str) -> Settings:
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
    try:
        return msgspec.convert(plain, Settings, strict=False, dec_hook=_from_text)
    except msgspec.ValidationError as error:
        problem = str(error)
        place = found[1] if (found := _PLACE.search(problem)) else ""
        problem = humanize_validation_error(name_choices(_PLACE.sub("", problem), types_at(Settings, place)))
        problem = problem.replace("Object contains unknown field", "there is no setting")
        problem = _MISSING.sub(r"the setting \1 is missing", problem)
        if not place and (unknown := _UNKNOWN.fullmatch(problem)):
            close = get_close_matches(unknown[1], Settings.__struct_fields__, 1)
            problem += f"; did you mean `{close[0]}`?" if close else ""
        for name, kind in _TABLES.items():
            place = place.replace(f"{name}[...]", f"{name}.{_wrong_table(plain.get(name), kind)}")
        if place and origin != PREFIX + place.upper().replace(".", "_"):  # a variable names its setting already
            problem = f"{place}: {problem}"
        raise SettingsInvalid(f"{origin}: {problem}") from error


def _wrong_table(tables: Any, kind: type[Struct]) -> str:
    """Return the name of the first invalid table, which the error itself does not contain."""
    for name, table in tables.items() if isinstance(tables, dict) else ():
        try:
            msgspec.convert(table, kind, strict=False, dec_hook=_from_text)
        except msgspec.ValidationError:
            return str(name)
    return "*"


def _from_text(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value).expanduser()
    if kind is Secret and isinstance(value, str):
        return Secret(value.strip())
    if kind in {Path, Secret}:
        raise TypeError("expected a text")
    raise NotImplementedError
