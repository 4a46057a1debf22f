"""A session of an editor with `cuebook lsp`: the server as a process, and the client of pygls."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from tests.support.marked_text import Cursor, cursor

TIMEOUT_S = 30


class Editor:
    """Opens and changes documents of a folder, and holds the diagnostics that the server sends."""

    def __init__(self, folder: Path) -> None:
        self.client = LanguageClient("editor", "1")
        self.diagnostics: dict[str, list[types.Diagnostic]] = {}
        self._folder = folder
        self._versions: dict[str, int] = {}
        self._arrived = asyncio.Condition()

        async def receive(params: types.PublishDiagnosticsParams) -> None:
            async with self._arrived:
                self.diagnostics[Path(params.uri).name] = [*params.diagnostics]
                self._arrived.notify_all()

        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(receive)

    def uri(self, name: str) -> str:
        return (self._folder / name).as_uri()

    def document(self, name: str) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.uri(name))

    def write(self, name: str, text: str) -> None:
        """Open a document with a text, or replace the text of an open one; nothing is saved."""
        self._versions[name] = version = self._versions.get(name, 0) + 1
        uri = self.uri(name)
        if version == 1:
            item = types.TextDocumentItem(uri, "yaml", version, text)
            self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        else:
            document = types.VersionedTextDocumentIdentifier(version, uri)
            changes = [types.TextDocumentContentChangeWholeDocument(text)]
            self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, changes))

    def write_marked(self, name: str, marked: str) -> tuple[types.TextDocumentIdentifier, types.Position]:
        """Write a text, and return its document and the position of its mark."""
        at: Cursor = cursor(marked)
        self.write(name, at.text)
        return self.document(name), types.Position(at.line, at.column)

    async def codes(self, name: str, *expected: str) -> list[types.Diagnostic]:
        """Wait until a file has problems with these codes and no others, and return them."""
        try:
            async with asyncio.timeout(TIMEOUT_S), self._arrived:
                await self._arrived.wait_for(lambda: self._codes(name) == sorted(expected))
        except TimeoutError:
            raise AssertionError(f"{name} has {self._codes(name)}, not {expected}") from None
        return self.diagnostics[name]

    def _codes(self, name: str) -> list[str] | None:
        found = self.diagnostics.get(name)
        return None if found is None else sorted(str(each.code) for each in found)


@asynccontextmanager
async def editing(folder: Path, encodings: list[types.PositionEncodingKind] | None = None) -> AsyncIterator[Editor]:
    """Start the server, and end it as an editor does; it must exit with 0."""
    editor = Editor(folder)
    client = editor.client
    await client.start_io(sys.executable, "-m", "api.cli.main", "lsp")
    general = types.GeneralClientCapabilities(position_encodings=encodings)
    capabilities = types.ClientCapabilities(general=general if encodings else None)
    async with asyncio.timeout(TIMEOUT_S):
        await client.initialize_async(types.InitializeParams(capabilities, root_uri=folder.as_uri()))
    client.initialized(types.InitializedParams())
    yield editor
    process = client._server
    assert process is not None
    async with asyncio.timeout(TIMEOUT_S):
        await client.shutdown_async(None)
        client.exit(None)
        assert await process.wait() == 0
    await client.stop()
