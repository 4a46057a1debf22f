"""The settings a command may be given as flags."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from api.cli.output import fail
from api.settings import Settings, SettingsInvalid, load_settings

F = TypeVar("F", bound=Callable[..., Any])


def with_settings(*names: str) -> Callable[[F], F]:
    """Adds ``--config`` and a flag for each named setting; `settings_of` turns them into Settings."""

    def decorate(function: F) -> F:
        for name in reversed(names):
            function = click.option(f"--{name}", type=_TYPES.get(name, str), help=_HELP[name])(function)
        return click.option("--config", type=click.Path(path_type=Path), help="Settings file [cuebook.toml].")(function)

    return decorate


_FOLDER = click.Path(path_type=Path)
_TYPES: dict[str, Any] = {"port": int, "data": _FOLDER, "scripts": _FOLDER, "prompts": _FOLDER}
_HELP = {
    "host": "Address to listen on [127.0.0.1]; only this machine, as long as there are no API keys.",
    "port": "Port to listen on [8000].",
    "data": "Folder of the record [cuebook-data].",
    "scripts": "Folder of scripts, published at start [the examples].",
    "prompts": "Folder of your own prompts [`prompts` in the folder of scripts].",
    "embedder": "`wordllama` [default], `sentence-transformers:NAME`, `openai:NAME`, or `none`.",
    "model": "`offline` [default], `scripted:FILE`, `openai:NAME`, or a name of `[models.NAME]`.",
}


def settings_of(config: Path | None, **flags: Any) -> Settings:
    """The settings; ends the command where they cannot be used."""
    try:
        return load_settings(config, flags)
    except SettingsInvalid as error:
        fail(str(error))
