"""Talking to a server of Cuebook from Python: `from api.client import Client` (asynchronous) or `SyncClient`."""

from api.client.client import Client as Client
from api.client.errors import CuebookError as CuebookError
from api.client.sessions import StreamEvent as StreamEvent
from api.client.sync import SyncClient as SyncClient
