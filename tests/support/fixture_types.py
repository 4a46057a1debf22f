"""Types of the fixtures that are functions."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

from click.testing import Result

from tests.support.api_client import ApiClient
from tests.support.server_process import ServerProcess
from tests.support.stream_client import StreamClient

OpenApp: TypeAlias = Callable[..., AbstractAsyncContextManager[ApiClient]]
"""Open the application: a data folder, a model, then settings by name."""

NewStreamClient: TypeAlias = Callable[[], StreamClient]
"""Create a client of streams."""

Serve: TypeAlias = Callable[..., ServerProcess]
"""Start a server process: flags of `cuebook serve`, then variables of the environment by name."""

RunCommand: TypeAlias = Callable[..., Result]
"""Run a command of `cuebook` in this process: its arguments, then options of `CliRunner.invoke` by name."""

WriteFile: TypeAlias = Callable[[str, str], Path]
"""Write a file, given its name and its text, into the folder in which commands run."""

Table: TypeAlias = Callable[[Result], list[list[str]]]
"""Return the cells of the table that a command printed, without its head."""
