"""Sessions of editors with `cuebook lsp`, as a process over standard input and output."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from api.cli.main import main
from tests.support.editor_session import editing
from tests.support.marked_text import CURSOR

pytestmark = pytest.mark.gate

TALK = """\
cuebook: 1
script: talk
use: [shared.yaml]
declare: [{var: name, define: what to call them, type: text}]
phases:
  - phase: opening
    topics:
      - topic: welcome
        actions:
          - {ask: 你好 😀 who are you?, id: ask_name, into: name}
          - {say: "😀 Hello, {{ na¦me }}.", id: greet}
          - {call: breathe, id: calm}
"""
SHARED = """\
cuebook: 1
skills:
  - skill: breathe
    actions:
      - {say: Breathe., id: in}
"""
CASES = """\
script: talk.yaml
cases:
  - name: one
    turns:
      - {at: opening/welcome/ask_name}
      - {say: Ana, variables: {name: Ana}}
"""
MARKED = "\ufeffcuebook: 1\r\nscript: talk\r\nactions:\r\n  - {say: 😀, id: a}\r\n  - {sya: x, id: b}\r\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "talk.yaml").write_text(TALK.replace(CURSOR, ""), "utf-8")
    (tmp_path / "shared.yaml").write_text(SHARED, "utf-8")
    (tmp_path / "talk.case.yaml").write_text(CASES, "utf-8")
    return tmp_path


def edited(text: str, edits: list[types.TextEdit]) -> str:
    """Return a text with the edits of a client that counts in UTF-16."""
    lines = text.split("\n")
    for each in sorted(edits, key=lambda each: each.range.start, reverse=True):
        first, last = (lines[at.line].encode("utf-16-le") for at in (each.range.start, each.range.end))
        before, after = first[: 2 * each.range.start.character], last[2 * each.range.end.character :]
        lines[each.range.start.line : each.range.end.line + 1] = [
            before.decode("utf-16-le") + each.new_text + after.decode("utf-16-le")
        ]
        lines = "\n".join(lines).split("\n")
    return "\n".join(lines)


async def test_editor_has_what_helps_to_write_a_script(folder) -> None:
    async with editing(folder) as editor:
        client = editor.client
        document, at = editor.write_marked("talk.yaml", TALK)
        at.character += 1  # 😀 is two units before the mark
        await editor.codes("talk.yaml")
        await editor.codes("shared.yaml")

        offered = await client.text_document_completion_async(types.CompletionParams(document, at))
        assert "name" in {each.label for each in offered}
        shown = await client.text_document_hover_async(types.HoverParams(document, at))
        assert shown.contents.value == "variable `name`: text: what to call them"
        declared = await client.text_document_definition_async(types.DefinitionParams(document, at))
        assert [(each.uri, each.range) for each in declared] == [
            (document.uri, types.Range(types.Position(3, 16), types.Position(3, 20)))
        ]
        context = types.ReferenceContext(include_declaration=False)
        used = await client.text_document_references_async(types.ReferenceParams(context, document, at))
        assert [each.range.start for each in used] == [types.Position(9, 58), types.Position(10, 32)]

        symbols = await client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
        assert [each.name for each in symbols] == ["name", "opening"]
        assert [each.name for each in symbols[1].children[0].children] == ["ask_name", "greet", "calm"]
        folds = await client.text_document_folding_range_async(types.FoldingRangeParams(document))
        assert [(each.start_line, each.end_line) for each in folds] == [(4, 11), (5, 11), (6, 11), (7, 11), (8, 11)]
        for style, begin in (("mermaid", "flowchart TB"), ("svg", "<svg ")):
            params = types.ExecuteCommandParams("cuebook.graph", [document.uri, style])
            assert (await client.workspace_execute_command_async(params)).startswith(begin)


async def test_outline_is_there_when_a_document_is_opened(folder) -> None:
    async with editing(folder) as editor:
        document, _ = editor.write_marked("talk.yaml", TALK)
        symbols = await editor.client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
        assert [each.name for each in symbols] == ["name", "opening"]


async def test_rename_changes_all_files_and_adds_an_entry(folder) -> None:
    async with editing(folder) as editor:
        client = editor.client
        document, at = editor.write_marked("talk.yaml", TALK)
        at.character += 1
        await editor.codes("talk.yaml")
        ready = await client.text_document_prepare_rename_async(types.PrepareRenameParams(document, at))
        assert ready == types.Range(types.Position(10, 32), types.Position(10, 36))
        with pytest.raises(JsonRpcException, match="the runtime reserves the name today"):
            await client.text_document_rename_async(types.RenameParams(document, at, "today"))
        found = await client.text_document_rename_async(types.RenameParams(document, at, "full_name"))
        assert {Path(uri).name for uri in found.changes} == {"talk.yaml", "talk.case.yaml"}
        text = edited(TALK.replace(CURSOR, ""), found.changes[document.uri])
        assert text.count("full_name") == 4
        assert text.endswith("migrations:\n  variables:\n    name: full_name\n")
        editor.write("talk.yaml", text)
        editor.write("talk.case.yaml", edited(CASES, found.changes[editor.uri("talk.case.yaml")]))
        await editor.codes("talk.case.yaml")
        await editor.codes("talk.yaml")


async def test_skill_of_an_include_file_is_renamed_in_all_scripts(folder) -> None:
    (folder / "other.yaml").write_text(TALK.replace(CURSOR, "").replace("script: talk", "script: other"), "utf-8")
    async with editing(folder) as editor:
        document, at = editor.write_marked("shared.yaml", SHARED.replace("breathe", "brea¦the"))
        await editor.codes("other.yaml")
        found = await editor.client.text_document_rename_async(types.RenameParams(document, at, "relax"))
        assert {Path(uri).name for uri in found.changes} == {"talk.yaml", "other.yaml", "shared.yaml"}


async def test_problems_follow_what_is_typed_and_their_fixes_apply(folder) -> None:
    async with editing(folder) as editor:
        wrong = TALK.replace("{{ na¦me }}", "{{ nme }}")
        editor.write("talk.yaml", wrong)
        (problem,) = await editor.codes("talk.yaml", "VARIABLE_NEVER_SET")
        assert "Did you mean `name`?" in problem.message
        document = editor.document("talk.yaml")
        shown = await editor.client.text_document_hover_async(types.HoverParams(document, problem.range.start))
        assert "Before:\n```yaml\n" in shown.contents.value
        params = types.CodeActionParams(document, problem.range, types.CodeActionContext([problem]))
        (action,) = await editor.client.text_document_code_action_async(params)
        assert edited(wrong, action.edit.changes[document.uri]) == TALK.replace(CURSOR, "")
        editor.write("talk.yaml", TALK.replace(CURSOR, ""))
        await editor.codes("talk.yaml")


async def test_unsaved_include_files_count_and_have_their_problems(folder) -> None:
    async with editing(folder) as editor:
        editor.write("talk.yaml", TALK.replace(CURSOR, ""))
        await editor.codes("talk.yaml")
        editor.write("shared.yaml", SHARED.replace("breathe", "relax"))
        await editor.codes("talk.yaml", "SKILL_UNKNOWN")
        editor.write("shared.yaml", SHARED.replace("Breathe.", "'{{ 1 + }}'"))
        await editor.codes("shared.yaml", "TEMPLATE_INVALID")
        await editor.codes("talk.yaml")
        editor.client.text_document_did_close(types.DidCloseTextDocumentParams(editor.document("shared.yaml")))
        await editor.codes("shared.yaml")


async def test_cases_are_checked_with_the_unsaved_script(folder) -> None:
    async with editing(folder) as editor:
        editor.write("talk.case.yaml", CASES)
        await editor.codes("talk.case.yaml")
        editor.write("talk.yaml", TALK.replace(CURSOR, "").replace("ask_name", "ask_who"))
        await editor.codes("talk.case.yaml", "ENUM_VALUE_INVALID")


async def test_deleted_and_renamed_files_do_not_stop_the_server(folder) -> None:
    async with editing(folder) as editor:
        document, at = editor.write_marked("talk.yaml", TALK)
        await editor.codes("talk.yaml")
        (folder / "shared.yaml").rename(folder / "moved.yaml")
        change = types.FileEvent(editor.uri("shared.yaml"), types.FileChangeType.Deleted)
        editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([change]))
        await editor.codes("talk.yaml", "USE_NOT_FOUND")
        (folder / "talk.yaml").unlink()
        assert await editor.client.text_document_references_async(
            types.ReferenceParams(types.ReferenceContext(include_declaration=True), document, at)
        )


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("", []),
        ("a: b\n", []),
        ("cuebook: 1\n\tscript: x\n", ["SYNTAX_ERROR"]),
        (MARKED, ["ACTION_TYPE_UNKNOWN"]),
        ("session:\n  session_id: talk\n  phases: []\n", ["NO_ACTIONS"]),
        ("cuebook: 1\nscript: \x00\nactions: []\n", ["SYNTAX_ERROR"]),
    ],
)  # fmt: skip
async def test_any_text_can_be_asked_about(folder, text, codes) -> None:
    async with editing(folder, [types.PositionEncodingKind.Utf8]) as editor:
        editor.write("odd.yaml", text)
        editor.write("talk.yaml", TALK.replace(CURSOR, ""))
        await editor.codes("talk.yaml")
        if codes:
            await editor.codes("odd.yaml", *codes)
        document, client = editor.document("odd.yaml"), editor.client
        for at in (types.Position(0, 0), types.Position(1, 3), types.Position(4, 9), types.Position(99, 99)):
            await client.text_document_hover_async(types.HoverParams(document, at))
            await client.text_document_completion_async(types.CompletionParams(document, at))
            await client.text_document_definition_async(types.DefinitionParams(document, at))
            assert await client.text_document_rename_async(types.RenameParams(document, at, "new")) is None
        await client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
        await client.text_document_folding_range_async(types.FoldingRangeParams(document))


async def test_new_document_without_a_file_is_checked(folder) -> None:
    async with editing(folder) as editor:
        item = types.TextDocumentItem("untitled:new.yaml", "yaml", 1, "cuebook: 1\nscript: new\nactions: []\n")
        editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        await editor.codes("untitled:new.yaml", "NO_ACTIONS")
        params = types.HoverParams(types.TextDocumentIdentifier(item.uri), types.Position(2, 2))
        assert await editor.client.text_document_hover_async(params) is not None


async def test_documents_of_linked_folders_have_the_editors_addresses(folder) -> None:
    link = folder.parent / f"{folder.name} linked"
    link.symlink_to(folder)
    async with editing(link) as editor:
        document, at = editor.write_marked("shared.yaml", SHARED.replace("breathe", "brea¦the"))
        editor.write("talk.yaml", TALK.replace(CURSOR, "").replace("call: breathe", "call: breath"))
        await editor.codes("talk.yaml", "SKILL_UNKNOWN")
        found = await editor.client.text_document_references_async(
            types.ReferenceParams(types.ReferenceContext(include_declaration=True), document, at)
        )
        assert [each.uri for each in found] == [document.uri]


def test_command_explains_itself_to_a_person() -> None:
    done = CliRunner().invoke(main, ["lsp", "--help"])
    assert "pip install 'cuebook[lsp]'" in done.stdout
