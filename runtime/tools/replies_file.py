"""Replies of tools as cases and cassettes write them, under `tools` and the name of each tool.

A value is the result of every call. Mappings with one of these keys alone mean something else::

    tools:
      lookup_order: {status: sent}
      pay: {fail: timeout, message: no answer}
      reserve: {each: [{result: 1}, {fail: refused}]}

`result` is a result whatever it looks like, `fail` a failure, `each` a reply for each call; the last one serves all
further calls.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from runtime.state.tool_ports import FailureReason, ToolCallFailed, ToolFailure, ToolReply
from runtime.tools.examples import ToolReplies
from scripts.expressions.suggestions import suggest
from scripts.expressions.values import Value, ValueRefused, to_value
from scripts.model.diagnostics import Problem, Problems
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping as MappingTree
from scripts.yaml.parser import Scalar, Tree, plain_value, read_tree
from scripts.yaml.parser import Sequence as SequenceTree
from scripts.yaml.text_file import FileUnreadable, file_text

TOOLS = "tools"
_REASONS: Mapping[str, FailureReason] = {each: each for each in get_args(FailureReason)}


class ToolFileInvalid(ValueError):
    """An invalid file of tool replies; the message names file and position."""


def read_tool_file(path: Path) -> ToolReplies:
    """Return the replies under `tools` of a file, which may be a cassette; none without the key.

    Raises ToolFileInvalid.
    """
    try:
        text = file_text(path)
    except FileUnreadable as error:
        raise ToolFileInvalid(str(error)) from error
    problems = Problems(str(path))
    tree = read_tree(text, problems)
    written = tree.get(TOOLS) if isinstance(tree, MappingTree) else None
    replies = read_tool_replies(written, Reader(problems, lenient=False)) if written is not None else {}
    if problems.fatal:
        first: Problem = problems.sorted()[0]
        raise ToolFileInvalid(f"{first} {first.fix}")
    return replies


def read_tool_replies(tree: Tree, reader: Reader) -> ToolReplies:
    """Return the replies of a mapping by tool; problems are recorded with their positions."""
    if not isinstance(tree, MappingTree):
        reader.add("TYPE_MISMATCH", "expected a mapping of tools to replies", tree.at)
        return {}
    return {key.text: tuple(_replies(each, reader)) for key, each in tree.pairs}


def _replies(tree: Tree, reader: Reader) -> Sequence[ToolReply]:
    each = tree.get("each") if isinstance(tree, MappingTree) and list(tree.keys()) == ["each"] else None
    return [_reply(item, reader) for item in each.items] if isinstance(each, SequenceTree) else [_reply(tree, reader)]


def _reply(tree: Tree, reader: Reader) -> ToolReply:
    keys = set(tree.keys()) if isinstance(tree, MappingTree) else set()
    if isinstance(tree, MappingTree) and "fail" in keys and keys <= {"fail", "message"}:
        return ToolReply(failure=_failure(tree, reader))
    result = tree.get("result") if isinstance(tree, MappingTree) and keys == {"result"} else None
    written = tree if result is None else result
    try:
        return ToolReply(to_value(plain_value(written)))
    except ValueRefused as refused:
        reader.add("CONSTRAINT_VIOLATION", str(refused), written.at)
        return ToolReply()


def _failure(tree: MappingTree, reader: Reader) -> ToolFailure:
    fail, message = tree.get("fail"), tree.get("message")
    word = fail.text if isinstance(fail, Scalar) else ""
    if word not in _REASONS:
        known = sorted(_REASONS)
        at = fail.at if fail is not None else tree.at
        reader.add("ENUM_VALUE_INVALID", f"`fail` is one of {', '.join(known)}", at, suggest(word, known))
        return ToolFailure("error", "")
    text = message.text if isinstance(message, Scalar) else "the tool failed"
    return ToolCallFailed(_REASONS[word], text).failure


def tools_as_written(replies: ToolReplies) -> dict[str, Value]:
    """Return replies as a file contains them: the inverse of `read_tool_replies`."""
    return {name: {"each": [_as_written(each) for each in of_tool]} for name, of_tool in replies.items() if of_tool}


def _as_written(reply: ToolReply) -> dict[str, Value]:
    if reply.failure is None:
        return {"result": reply.result}
    return {"fail": reply.failure.kind, "message": reply.failure.message}
