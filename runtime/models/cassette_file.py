"""Files of model replies (cassettes): their format, reading with the position of every problem, and writing.

The file lists the replies of each action by its id, one a round; a plain string is the text to say. Replies to
requests beside the conversation (extracted values, intents) are listed under `ID.extract` and `ID.route`, one a call;
the last one serves all further calls. Summaries and memos of the conversation are listed under `context.summarise` and
`context.memo`; without them they are extracts of the messages. The verdicts of a detector are listed under
`DETECTOR.detect`, one for each user message from the first on (`{}`: nothing found; `{score: 0.9, label: crisis}`). An
action that a session visits several times may have a list of such replies for each visit. A reply may contain the
usage of its call, as `usage`, and the tools that the model calls before it, as `calls`::

    replies:
      ask_name:
        - What should I call you?
        - {exit: true, values: {user_name: Ana}, usage: {model: tea-1, input_tokens: 310, output_tokens: 12}}
      help:
        - {calls: [{tool: lookup_order, arguments: {order: "4711"}}], text: It is on its way.}
      ask_name.extract:
        - {values: {user_name: Ana}}
      how_heavy:
        - - How heavy is the first?
          - {exit: true, values: {weight: 4}}
        - - And the second?
          - {exit: true, values: {weight: 2}}

A detector that also watches the session's own messages has such a list for each turn, the opening first: one reply for
each message.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, json

from runtime.state.ports import CONDENSING, Advance, Purpose, Usage
from scripts.expressions.suggestions import suggest
from scripts.expressions.values import Value
from scripts.model.diagnostics import Problem, Problems
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping as MappingTree
from scripts.yaml.parser import Scalar, Tree, read_tree
from scripts.yaml.parser import Sequence as SequenceTree
from scripts.yaml.text_file import FileUnreadable, file_text
from scripts.yaml.writer import Item, Items, Layout, Record, document, plain

_KEYS = ("replies", "tools")  # the replies of tools are read by `runtime.tools.replies_file`
ASIDES: frozenset[Purpose] = CONDENSING | {"extract", "route"}
"""The purposes of requests beside the conversation; their replies are counted by call, not by round."""


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A call of a tool before a reply."""

    tool: str
    arguments: Mapping[str, Value] = {}
    usage: Usage | None = None


class ScriptedReply(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One reply in a file; `fail` makes the call fail instead, `retryable` or not."""

    text: str = ""
    values: Mapping[str, Value] = {}
    reasons: Mapping[str, str] = {}
    calls: tuple[ScriptedCall, ...] = ()
    exit: bool | str | int | None = None
    exit_reason: str = ""
    understanding: int | None = None
    has_questions: bool | None = None
    progress: Advance | None = None
    intent: str = ""
    score: float = 0.0
    label: str = ""
    extracted: bool = False
    fail: str = ""
    retryable: bool = True
    usage: Usage | None = None


Written: TypeAlias = str | ScriptedReply
Replies: TypeAlias = Mapping[str, Sequence[Written] | Sequence[Sequence[Written]]]
"""By action id (or `ID.extract`, `ID.route`), the replies of each round, or a list of them for each visit."""


class ScriptedFileInvalid(ValueError):
    """An invalid file of replies; the message names file and position. `problems` are all problems of the file."""

    def __init__(self, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class CassetteUnwritable(ValueError):
    """Replies that cannot be written to a file; the message says why."""


# -- reading ----------------------------------------------------------------------------------------------------------


def read_cassette(path: Path) -> Replies:
    """Return the replies of a file. Raises ScriptedFileInvalid."""
    try:
        return _parse(file_text(path), str(path))
    except FileUnreadable as error:
        raise ScriptedFileInvalid(str(error)) from error


def _parse(text: str, file: str) -> Replies:
    problems = Problems(file)
    tree = read_tree(text, problems)
    replies = _file(tree, Reader(problems, lenient=False)) if tree is not None else {}
    if problems.fatal:
        found = problems.sorted()
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise ScriptedFileInvalid(f"{found[0]} {found[0].fix}{more}", found)
    return replies


def _file(tree: Tree, reader: Reader) -> Replies:
    if not isinstance(tree, MappingTree):
        reader.add("TYPE_MISMATCH", "expected a mapping with `replies`", tree.at)
        return {}
    others = [key for key, _ in tree.pairs if key.text not in _KEYS]
    for key in others:
        reader.add("UNKNOWN_KEY", f"`{key.text}` means nothing here", key.at, suggest(key.text, list(_KEYS)))
    replies = tree.get("replies")
    if replies is None and (others or tree.get("tools") is not None):
        return {}
    if replies is None:
        reader.add("REQUIRED_FIELD_MISSING", "`replies` is missing", tree.at, "Add `replies:`.")
        return {}
    return read_replies(replies, reader)


def read_replies(tree: Tree, reader: Reader) -> Replies:
    """Return the replies of a mapping by action id; problems are recorded with their positions."""
    if isinstance(tree, Scalar) and tree.value is None:
        return {}
    if not isinstance(tree, MappingTree):
        reader.mismatch(tree, "a mapping of action ids to lists of replies")
        return {}
    found = {}
    for key, each in tree.pairs:
        with reader.inside(f".{key.text}"):
            found[key.text] = _of_action(each, reader)
    return found


def _of_action(tree: Tree, reader: Reader) -> Sequence[Written] | Sequence[Sequence[Written]]:
    if not isinstance(tree, SequenceTree):
        reader.mismatch(tree, "a list of replies", "Begin each reply with a dash.")
        return []
    visits = [item for item in tree.items if isinstance(item, SequenceTree)]
    if not visits:
        return _rounds(tree, reader)
    for item in tree.items:
        if not isinstance(item, SequenceTree):
            fix = "Either every item is a list, one for each visit, or none is."
            reader.mismatch(item, "the replies of one visit, as a list", fix)
    return [_rounds(visit, reader) for visit in visits]


def _rounds(tree: SequenceTree, reader: Reader) -> list[Written]:
    found: list[Written] = []
    for index, item in enumerate(tree.items):
        with reader.inside(f"[{index}]"):
            if isinstance(item, Scalar) and isinstance(item.value, str):
                found.append(item.text)
            elif isinstance(item, MappingTree):
                reply = reader.read(item, ScriptedReply)
                found += [reply] if reply is not None else []
            else:
                reader.mismatch(item, "a text or a mapping such as {text: Hello, exit: true}")
    return found


def holds_replies(text: str) -> bool:
    """Return whether a text looks like a file of replies, valid or not; an empty text does."""
    tree = read_tree(text, Problems())
    return not text.strip() or (isinstance(tree, MappingTree) and {"replies"} <= set(tree.keys()) <= set(_KEYS))


# -- writing ----------------------------------------------------------------------------------------------------------


def cassette_text(replies: Replies, tools: Mapping[str, Value] | None = None) -> str:
    """Return the replies as the text of a file, which reads back as the same replies; `tools` are those of tools, as
    the file contains them. Raises CassetteUnwritable.
    """
    of_tools: tuple[tuple[str, Layout], ...] = (("tools", plain(dict(tools))),) if tools else ()
    text = document(Record((("replies", replies_layout(replies)), *of_tools), flow=False))
    try:
        again = _parse(text, "the cassette")
    except ScriptedFileInvalid as error:
        raise CassetteUnwritable(str(error)) from error
    if again != {name: list(rounds) for name, rounds in replies.items()}:
        raise CassetteUnwritable("a reply contains a value that YAML cannot represent")
    return text


def replies_layout(replies: Replies) -> Record:
    """Return the layout of replies by action, as a cassette or a case contains them."""
    pairs = tuple((name, _layout(rounds)) for name, rounds in replies.items())
    return Record(pairs, flow=not pairs)


def _layout(rounds: Sequence[Written] | Sequence[Sequence[Written]]) -> Layout:
    items = [
        _reply(each) if isinstance(each, str | ScriptedReply) else Items(tuple(Item(_reply(one)) for one in each))
        for each in rounds
    ]
    return Items(tuple(Item(each) for each in items), flow=False)


def _reply(written: Written) -> Layout:
    return written if isinstance(written, str) else plain(json.decode(json.encode(written)))
