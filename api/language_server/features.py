"""The requests of an editor about positions and files: completion, hover, definition, rename and the like."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from inspect import isawaitable
from pathlib import Path
from typing import Any, Literal

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from api.language_server.diagnostics import fix_action, problem_range
from api.language_server.script_files import kind_of_file, rename_everywhere
from api.language_server.server import ScriptServer, path_of
from scripts.editing.completion import Completion, CompletionKind, complete
from scripts.editing.hover import key_meaning, name_meaning, problem_meaning
from scripts.editing.outline import OutlineItem, outline
from scripts.editing.rename import RenameRefused
from scripts.editing.text_parts import parts_of
from scripts.graph.graph import build_graph
from scripts.graph.mermaid import mermaid
from scripts.graph.svg import svg
from scripts.yaml.text_file import FileUnreadable

_COMPLETION_KINDS: Mapping[CompletionKind, types.CompletionItemKind] = {
    "key": types.CompletionItemKind.Property,
    "value": types.CompletionItemKind.EnumMember,
    "variable": types.CompletionItemKind.Variable,
    "name": types.CompletionItemKind.Reference,
}
_SYMBOL_KINDS: Mapping[str, types.SymbolKind] = {
    "phase": types.SymbolKind.Namespace,
    "topic": types.SymbolKind.Class,
    "action": types.SymbolKind.Method,
    "skill": types.SymbolKind.Function,
    "variable": types.SymbolKind.Variable,
    "interrupt": types.SymbolKind.Event,
    "detector": types.SymbolKind.Event,
}
GRAPH = "cuebook.graph"


def completion(ls: ScriptServer, params: types.CompletionParams) -> list[types.CompletionItem]:
    """Return what may be written at a position."""
    path = path_of(params.text_document.uri)
    positions, line = ls.positions(path), params.position.line
    if line >= len(positions.lines):
        return []
    column = positions.column(params.position)

    def item(each: Completion) -> types.CompletionItem:
        edited = positions.range(positions.at(line, each.column), positions.at(line, column))
        return types.CompletionItem(
            label=each.offer.label,
            kind=_COMPLETION_KINDS[each.kind],
            documentation=each.offer.detail or None,
            text_edit=types.TextEdit(edited, each.text),
        )

    kind = kind_of_file(path, positions.text)
    return [item(each) for each in complete(positions.lines, line, column, ls.names_around(path), kind)]


def hover(ls: ScriptServer, params: types.HoverParams) -> types.Hover | None:
    """Return what a position means: its problems, its name, its key."""
    path = path_of(params.text_document.uri)
    positions, position = ls.positions(path), params.position
    found = [each.problem for each in ls.problems.get(path, ())]
    texts = [problem_meaning(each) for each in found if _contains(problem_range(each, positions), position)]
    if (named := ls.name_at(path, position)) is not None:
        texts.append(name_meaning(named[1].name, ls.names_around(path)))
    elif position.line < len(positions.lines):
        kind = kind_of_file(path, positions.text)
        texts.append(key_meaning(positions.lines, position.line, positions.column(position), kind))
    text = "\n\n---\n\n".join(each for each in dict.fromkeys(texts) if each)
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None


def _contains(range: types.Range, position: types.Position) -> bool:
    return range.start <= position <= range.end


def definition(ls: ScriptServer, params: types.DefinitionParams) -> list[types.Location]:
    """Return where a name is declared; of an undeclared variable, where it is set or read first."""
    places = _places(ls, params.text_document.uri, params.position, with_declaration=True)
    declared = [location for is_declaration, location in places if is_declaration]
    return declared or [location for _, location in places[:1]]


def references(ls: ScriptServer, params: types.ReferenceParams) -> list[types.Location]:
    """Return every place that has a name."""
    uri, with_declaration = params.text_document.uri, params.context.include_declaration
    places = _places(ls, uri, params.position, with_declaration=with_declaration)
    return [location for _, location in places]


def _places(
    ls: ScriptServer, uri: str, position: types.Position, *, with_declaration: bool
) -> list[tuple[bool, types.Location]]:
    path = path_of(uri)
    if (named := ls.name_at(path, position)) is None:
        return []
    files, name = named
    found = [(path, each) for path, each in files.occurrences() if each.name == name.name]
    positions = {path: ls.positions(path) for path, _ in found}
    return [
        (each.is_declaration, types.Location(ls.uri_of(path), positions[path].range(each.start, each.end)))
        for path, each in found
        if with_declaration or not each.is_declaration
    ]


def prepare_rename(ls: ScriptServer, params: types.PrepareRenameParams) -> types.Range | None:
    """Return the range of the name at a position."""
    path = path_of(params.text_document.uri)
    if (named := ls.name_at(path, params.position)) is None:
        return None
    return ls.positions(path).range(named[1].start, named[1].end)


async def rename(ls: ScriptServer, params: types.RenameParams) -> types.WorkspaceEdit | None:
    """Return the edits that rename something in all files that name it."""
    path = path_of(params.text_document.uri)
    if (named := ls.name_at(path, params.position)) is None:
        return None
    files, name = named
    try:
        found = await asyncio.to_thread(rename_everywhere, [files.path("")], name.name, params.new_name, ls.reader())
    except (RenameRefused, FileUnreadable) as error:
        raise JsonRpcException(str(error), types.LSPErrorCodes.RequestFailed) from error
    changes: dict[str, Sequence[types.TextEdit]] = {}
    for file, edits in found.items():
        positions = ls.positions(file)
        changes[ls.uri_of(file)] = [types.TextEdit(positions.range(each.start, each.end), each.text) for each in edits]
    return types.WorkspaceEdit(changes=changes)


def code_actions(ls: ScriptServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """Return the changes that correct the problems on the lines of a range."""
    path = path_of(params.text_document.uri)
    positions = ls.positions(path)
    lines = range(params.range.start.line + 1, params.range.end.line + 2)
    found = (each for each in ls.problems.get(path, ()) if each.problem.line in lines)
    actions = (fix_action(each, params.text_document.uri, positions) for each in found)
    return [each for each in actions if each is not None]


def document_symbols(ls: ScriptServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    """Return the outline of a document."""
    path = path_of(params.text_document.uri)
    checked = next(iter(ls.scripts_around(path)), None)
    if checked is None or checked.draft is None:
        return []
    script = Path(checked.reading.source.file)
    side_files = checked.reading.source.side_files
    file = next((name for name in side_files if script.parent / name == path), str(script))
    positions = ls.positions(path)

    def symbol(each: OutlineItem) -> types.DocumentSymbol:
        last = len(positions.lines)
        start, end = positions.at(each.line - 1, 0), positions.at(min(each.end_line, last) - 1, 1_000_000)
        first_line = positions.range(start, positions.at(each.line - 1, 1_000_000))
        return types.DocumentSymbol(
            name=each.name,
            detail=each.detail,
            kind=_SYMBOL_KINDS.get(each.kind, types.SymbolKind.Object),
            range=types.Range(first_line.start, max(first_line.end, positions.range(start, max(start, end)).end)),
            selection_range=first_line,
            children=[symbol(inner) for inner in each.inner],
        )

    return [symbol(each) for each in outline(checked.draft, file, len(positions.lines))]


def folding_ranges(ls: ScriptServer, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
    """Return the parts of a document that have several lines, each from the line of its key."""
    positions = ls.positions(path_of(params.text_document.uri))
    found = parts_of(positions.text)
    keys = {each.path: each.start for each in found if each.kind == "key"}
    ranges = [
        positions.range(keys.get(each.path, each.start), each.end) for each in found if each.kind != "key" and each.path
    ]
    lines = {each.start.line: each.end.line for each in reversed(ranges) if each.end.line > each.start.line}
    return [types.FoldingRange(start_line=start, end_line=end) for start, end in sorted(lines.items())]


def graph(ls: ScriptServer, uri: str, style: Literal["mermaid", "svg"]) -> str:
    """Return the graph of a document's script as Mermaid or SVG."""
    scripts = ls.scripts_around(path_of(uri))
    if not scripts or scripts[0].reading.script is None:
        raise JsonRpcException("there is no script without errors here", types.LSPErrorCodes.RequestFailed)
    found = build_graph(scripts[0].reading.script)
    return svg(found) if style == "svg" else mermaid(found)


# -- documents --------------------------------------------------------------------------------------------------------


def document_changed(
    ls: ScriptServer, params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams
) -> None:
    """Check a document that was opened or changed."""
    ls.schedule_check(path_of(params.text_document.uri))


def document_closed(ls: ScriptServer, params: types.DidCloseTextDocumentParams) -> None:
    """Remove the problems of a document that was closed."""
    ls.forget(path_of(params.text_document.uri))


def files_changed(ls: ScriptServer, params: types.DidChangeWatchedFilesParams) -> None:
    """Check the open documents after other programs changed, renamed or deleted files."""
    ls.schedule_all()


async def watch_files(ls: ScriptServer, params: types.InitializedParams) -> None:
    """Ask the editor to report changes of files by other programs, if it can."""
    workspace = ls.client_capabilities.workspace
    watching = workspace.did_change_watched_files if workspace is not None else None
    if watching is not None and watching.dynamic_registration:
        watchers = [types.FileSystemWatcher(glob_pattern=pattern) for pattern in ("**/*.yaml", "**/*.yml")]
        options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
        asked = types.Registration("files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
        await ls.client_register_capability_async(types.RegistrationParams([asked]))


def _after_first_check(answer: Callable[[ScriptServer, Any], Any]) -> Callable[[ScriptServer, Any], Awaitable[Any]]:
    """Let a request wait until its document was checked once."""

    @wraps(answer)
    async def after_check(ls: ScriptServer, params: Any) -> Any:
        await ls.first_check(path_of(params.text_document.uri))
        found = answer(ls, params)
        return await found if isawaitable(found) else found

    return after_check


def create_server() -> ScriptServer:
    """Return a language server with all its features."""
    server = ScriptServer()
    notifications: Mapping[str, Callable[..., Any]] = {
        types.INITIALIZED: watch_files,
        types.TEXT_DOCUMENT_DID_OPEN: document_changed,
        types.TEXT_DOCUMENT_DID_CHANGE: document_changed,
        types.TEXT_DOCUMENT_DID_CLOSE: document_closed,
        types.WORKSPACE_DID_CHANGE_WATCHED_FILES: files_changed,
    }
    requests: Mapping[str, tuple[Callable[..., Any], Any]] = {
        types.TEXT_DOCUMENT_COMPLETION: (completion, types.CompletionOptions(trigger_characters=[" ", "{", "="])),
        types.TEXT_DOCUMENT_HOVER: (hover, None),
        types.TEXT_DOCUMENT_DEFINITION: (definition, None),
        types.TEXT_DOCUMENT_REFERENCES: (references, None),
        types.TEXT_DOCUMENT_PREPARE_RENAME: (prepare_rename, None),
        types.TEXT_DOCUMENT_RENAME: (rename, types.RenameOptions(prepare_provider=True)),
        types.TEXT_DOCUMENT_CODE_ACTION: (code_actions, types.CodeActionOptions([types.CodeActionKind.QuickFix])),
        types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: (document_symbols, None),
        types.TEXT_DOCUMENT_FOLDING_RANGE: (folding_ranges, None),
    }
    for name, handler in notifications.items():
        server.feature(name)(handler)
    for name, (answer, options) in requests.items():
        server.feature(name, options)(_after_first_check(answer))
    server.command(GRAPH)(graph)
    return server
