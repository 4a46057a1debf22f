"""``cuebook serve``."""

import sys
from pathlib import Path
from typing import Any

import click
import structlog
from rich.markup import escape

from api.cli.options import settings_of, with_settings
from api.cli.output import errors, fail
from api.models import ModelUnknown
from api.server import AddressRefused, FolderMissing
from api.server import serve as run_server
from api.settings import SettingsInvalid
from runtime.models.cassette import ScriptedFileInvalid
from store.errors import StoreError

log = structlog.get_logger()


@click.command(epilog="Example: cuebook serve --scripts my-scripts --port 8080")
@click.option("--reload", is_flag=True, help="Publish a script anew when it or one of its side files changes.")
@with_settings("host", "port", "data", "scripts", "model")
def serve(reload: bool, config: Path | None, **flags: Any) -> None:
    """Serves sessions over HTTP, and publishes the scripts of a folder at start.

    A script that is broken is reported and does not stop the rest. With --reload a script that changes becomes a new
    version at once: sessions that run keep theirs, new ones take it. The API is described at /schema.
    """
    settings = settings_of(config, **flags)

    def announce(address: str, access: str) -> None:
        if not sys.stderr.isatty():  # then the log is of JSON lines, and so is this
            log.info(
                "server started",
                address=address,
                scripts=str(settings.scripts),
                record=str(settings.data.absolute()),
                model=settings.model,
                access=access,
            )
            return
        errors.print(
            f"[bold]Cuebook[/] serves {escape(str(settings.scripts))} at {address}"
            f"\n  record   {escape(str(settings.data.absolute()))}"
            f"\n  model    {escape(settings.model)}"
            f"\n  API      {address}/schema"
            f"\n  access   {access}"
        )

    try:
        run_server(settings, announce, reload=reload)
    except (AddressRefused, FolderMissing, ModelUnknown, ScriptedFileInvalid, SettingsInvalid, StoreError) as error:
        fail(str(error))
