"""The server: documents of an editor, checked as people type, and the requests about them."""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path

from lsprotocol import types
from msgspec import Struct
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import TextDocument

from api.background import wait_at_most
from api.language_server.diagnostics import FoundProblem, diagnostic, problems_by_file
from api.language_server.script_files import ScriptFiles, check_file, files_now
from api.language_server.text_positions import TextPositions, positions_in, without_mark
from scripts.editing.completion import KnownNames
from scripts.editing.name_occurrences import Occurrence
from scripts.model.script import Script
from scripts.parse.folder import CASE_SUFFIX
from scripts.parse.read_script import Reading
from scripts.yaml.text_file import FileUnreadable, ReadText, file_text

DEBOUNCE_S = 0.2  # without a change before a document is checked
FIRST_CHECK_S = 10  # that a request waits for the first check of its document
log = logging.getLogger(__name__)


class CheckedScript(Struct, frozen=True):
    """The last check of a script, a case file or an unused include file, and the last text of it that could be read."""

    reading: Reading
    draft: Script | None = None
    known: KnownNames = KnownNames()


class ScriptServer(LanguageServer):
    """A language server of scripts. Its documents are checked in a thread, one at a time."""

    def __init__(self) -> None:
        # whole texts, because lines of a script end with fewer characters than those of Python's texts
        super().__init__("cuebook", version("cuebook"), types.TextDocumentSyncKind.Full)
        self._scripts: dict[Path, CheckedScript] = {}
        self._scripts_by_document: dict[Path, tuple[Path, ...]] = {}
        self._waiting: dict[Path, asyncio.Task[None]] = {}
        self._first_checks: dict[Path, asyncio.Event] = {}  # set when a document was checked once
        self._one_check = asyncio.Lock()
        self._published: set[Path] = set()
        self.problems: Mapping[Path, list[FoundProblem]] = {}

    # -- texts --------------------------------------------------------------------------------------------------------

    def documents(self) -> dict[Path, TextDocument]:
        """Return the open documents by their paths."""
        return {path_of(each.uri): each for each in self.workspace.text_documents.values()}

    def uri_of(self, path: Path) -> str:
        """Return the address of a file, as the editor writes it if it is open."""
        document = self.documents().get(path)
        return document.uri if document is not None else str(from_fs_path(str(path)))

    def reader(self) -> ReadText:
        """Return a function that reads files as the editor has them now, also in another thread."""
        return partial(_read, {path: without_mark(each.source) for path, each in self.documents().items()})

    def positions(self, path: Path) -> TextPositions:
        """Return the positions of a file; an unreadable one is empty."""
        document = self.documents().get(path)
        try:
            text = document.source if document is not None else file_text(path)
        except FileUnreadable:
            text = ""
        return positions_in(text, self.workspace.position_encoding or types.PositionEncodingKind.Utf16)

    # -- checks -------------------------------------------------------------------------------------------------------

    def schedule_check(self, path: Path) -> None:
        """Check a document when it has not changed for a moment, and open cases, which may be about it."""
        documents = self.documents()
        cases = [each for each in documents if each.name.endswith(CASE_SUFFIX)]
        for each in {path, *cases} & documents.keys():
            self._first_checks.setdefault(each, asyncio.Event())
            if each in self._waiting:
                self._waiting[each].cancel()
            self._waiting[each] = task = asyncio.get_running_loop().create_task(self._check(each))
            task.add_done_callback(_log_failure)

    async def _check(self, path: Path) -> None:
        await asyncio.sleep(DEBOUNCE_S)
        async with self._one_check:  # two checks in threads would only slow each other down
            del self._waiting[path]  # from here on it ends, as a thread cannot be cancelled
            document = self.documents()[path]
            read = self.reader()
            found = await asyncio.to_thread(_checked_scripts, path, read)
        if self.documents().get(path) is not document or without_mark(document.source) != read(path):
            return  # a newer text waits for its check, or the document is closed
        for script, checked in found.items():
            earlier = self._scripts.get(script)
            if checked.draft is None and earlier is not None:
                checked = CheckedScript(checked.reading, earlier.draft, earlier.known)
            self._scripts[script] = checked
        self._scripts_by_document[path] = tuple(found)
        self._first_checks[path].set()
        self._publish()

    async def first_check(self, path: Path) -> None:
        """Wait until an open document was checked once, because editors ask for its outline when they open it."""
        if (checked := self._first_checks.get(path)) is not None:
            await wait_at_most(FIRST_CHECK_S, checked)

    def forget(self, path: Path) -> None:
        """Remove what is known of a document that was closed, and check the others, which may have used its text."""
        if path in self._waiting:
            self._waiting.pop(path).cancel()
        self._scripts_by_document.pop(path, None)
        if (waited_for := self._first_checks.pop(path, None)) is not None:
            waited_for.set()
        self._publish()
        self.schedule_all()

    def schedule_all(self) -> None:
        """Check all open documents."""
        for path in self.documents():
            self.schedule_check(path)

    def scripts_around(self, path: Path) -> list[CheckedScript]:
        """Return the scripts of a document as they were checked last."""
        return [self._scripts[each] for each in self._scripts_by_document.get(path, ())]

    def names_around(self, path: Path) -> KnownNames:
        """Return the names of the first script of a document."""
        return next((each.known for each in self.scripts_around(path)), KnownNames())

    def _publish(self) -> None:
        """Send the problems of all files of the checked documents, and empty lists for files that had some before."""
        current = {script for scripts in self._scripts_by_document.values() for script in scripts}
        self._scripts = {script: checked for script, checked in self._scripts.items() if script in current}
        self.problems = problems_by_file(each.reading for each in self._scripts.values())
        for path in {*self.problems, *self._published}:
            positions = self.positions(path)
            diagnostics = [diagnostic(each, positions) for each in self.problems.get(path, ())]
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(self.uri_of(path), diagnostics))
        self._published = {path for path, problems in self.problems.items() if problems}

    # -- names --------------------------------------------------------------------------------------------------------

    def files_around(self, path: Path) -> list[ScriptFiles]:
        """Return the scripts of a document with their files as they were found, and the texts as they are now."""
        read = self.reader()
        found: list[ScriptFiles] = []
        for checked in self.scripts_around(path):
            try:
                found += files_now(path, checked.reading, read)
            except FileUnreadable:  # deleted since the last check
                continue
        return found

    def name_at(self, path: Path, position: types.Position) -> tuple[ScriptFiles, Occurrence] | None:
        """Return the name at a position of a document, and the script that has it."""
        offset = self.positions(path).offset(position)
        found = ((files, files.name_at(path, offset)) for files in self.files_around(path))
        return next(((files, name) for files, name in found if name is not None), None)


def _read(texts: Mapping[Path, str], path: Path) -> str:
    return texts[path] if path in texts else file_text(path)


def _checked_scripts(path: Path, read: ReadText) -> dict[Path, CheckedScript]:
    found: dict[Path, CheckedScript] = {}
    for reading in check_file(path, read):
        names = (each for _, each in ScriptFiles(reading.source).occurrences())
        script = Path(reading.source.file)
        found[script] = CheckedScript(reading, reading.draft, KnownNames.of(names, reading.draft))
    return found


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the check failed", exc_info=error)


def path_of(uri: str) -> Path:
    """Return the path of a document, which may be new, without links; one that is no file has a path without a file."""
    return Path(to_fs_path(uri) or uri).resolve()
