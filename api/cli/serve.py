"""``cuebook serve``: run the HTTP server."""

import click
import structlog
from rich.markup import escape

from api.cli.options import with_settings
from api.cli.output import errors, failing
from api.logs.configuration import is_text
from api.models.server_model import ModelUnknown
from api.server import AddressRefused, FolderMissing
from api.server import serve as run_server
from api.settings import Settings, SettingsInvalid
from runtime.models.cassette_file import ScriptedFileInvalid
from store.interface.addresses import without_password
from store.interface.errors import StoreError


@click.command(epilog="Example: cuebook serve --scripts my-scripts --port 8080")
@click.option("--reload", is_flag=True, help="Publish a script again when it or one of its include files changes.")
@with_settings("host", "port", "data", "database", "scripts", "model", "hold_late_timers", "log_format")
def serve(settings: Settings, reload: bool) -> None:
    """Serve sessions over HTTP, after publishing the scripts of a folder.

    A script with errors is reported and skipped; the others are published. With --reload a changed script becomes a
    new version at once: running sessions stay on their version, new sessions use the new one. The API is described at
    /schema, and the documentation is at /docs if `make docs` has built it.
    """

    def announce(address: str, access: str) -> None:
        if not is_text(settings.log_format):
            structlog.get_logger().info(
                "server started",
                address=address,
                scripts=str(settings.scripts),
                store=_database_of(settings),
                model=settings.model,
                access=access,
            )
            return
        errors.print(announcement(settings, address, access))

    with failing(AddressRefused, FolderMissing, ModelUnknown, ScriptedFileInvalid, SettingsInvalid, StoreError):
        run_server(settings, announce, reload=reload)


def announcement(settings: Settings, address: str, access: str) -> str:
    """Return what a terminal shows when the server has started, as rich's markup: where everything is."""
    is_built = (settings.console / "index.html").is_file()
    console = f"{address} (choose a script in Play, and talk to it)" if is_built else "not built; run `make console`"
    return (
        f"[bold]Cuebook[/] serves {escape(str(settings.scripts))} at {address}"
        f"\n  console  {console}"
        f"\n  database {escape(_database_of(settings))}"
        f"\n  model    {escape(settings.model)}"
        f"\n  API      {address}/{'reference' if is_built else 'schema'}"
        f"\n  access   {access}"
    )


def _database_of(settings: Settings) -> str:
    """Return where the database is, without a password."""
    url = settings.database_url
    return str(settings.data.absolute()) if url is None else without_password(url)
