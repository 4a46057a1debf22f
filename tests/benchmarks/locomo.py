"""LoCoMo (Maharana et al., 2024): ten long conversations of two people, with questions and the turns that answer them.

It does not come with Cuebook: a zip archive or a folder of its files is given by the environment variable LOCOMO. One
turn is one unit, a question is asked raw within its own conversation, and found is what the annotators marked as the
evidence. Categories 1 to 4 are multi-hop, time, open-domain and single-hop; 5 asks about the wrong one of the two.
"""

import json
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from runtime.memory.recall.query import IndexEntry

ADVERSARIAL = 5


class Asked(Struct, frozen=True):
    """A question, its category, and the sequences of its evidence."""

    text: str
    category: int
    evidence: frozenset[int]


class Conversation(Struct, frozen=True):
    """A conversation's turns, the summaries of its sessions by group, and its questions."""

    name: str
    entries: list[IndexEntry]
    summaries: dict[str, str]
    questions: list[Asked]


def conversations() -> list[Conversation]:
    """All conversations. Ends the program, with the fix, where there are none."""
    where = os.environ.get("LOCOMO", "")
    if not where or not Path(where).exists():
        sys.exit("LOCOMO names no file: set it to the path of LoCoMo's zip archive, or of a folder of its JSON files")
    found = [_conversation(name, data) for name, data in sorted(_files(Path(where)))]
    if not found:
        sys.exit(f"{where}: no conversation of LoCoMo in it")
    return found


def _files(where: Path) -> Iterator[tuple[str, Any]]:
    if where.is_dir():
        for path in where.rglob("*.json"):
            yield path.stem, json.loads(path.read_text())
        return
    with zipfile.ZipFile(where) as archive:
        for name in archive.namelist():
            if name.endswith(".json") and "/." not in name and not name.startswith("__"):
                yield Path(name).stem, json.loads(archive.read(name))


def _conversation(name: str, data: Any) -> Conversation:
    entries: list[IndexEntry] = []
    by_turn: dict[tuple[int, int], int] = {}
    summaries = {}
    for session in sorted(int(key[8:]) for key in data if re.fullmatch(r"session_\d+", key)):
        when = datetime.strptime(data[f"session_{session}_date_time"].strip() + " +0000", "%I:%M %p on %d %B, %Y %z")
        if summary := data.get(f"session_{session}_summary"):
            summaries[f"session {session}"] = str(summary)
        for turn in data[f"session_{session}"]:
            sequence = len(entries) + 1
            by_turn[_turns(turn["dia_id"])[0]] = sequence
            entries.append(
                IndexEntry(
                    sequence=sequence,
                    group=f"session {session}",
                    source=turn["speaker"],
                    created_at=when,
                    content=_content(turn),
                    has_attachment=bool(turn.get("blip_caption")),
                )
            )
    questions = []
    for asked in data["qa"]:
        turns = [turn for reference in asked.get("evidence", []) for turn in _turns(reference)]
        if evidence := frozenset(by_turn[turn] for turn in turns if turn in by_turn):
            questions.append(Asked(asked["question"], asked["category"], evidence))
    return Conversation(name, entries, summaries, questions)


def _content(turn: Any) -> str:
    caption = turn.get("blip_caption")
    return f"{turn.get('text', '')} [image: {caption}]" if caption else str(turn.get("text", ""))


def _turns(reference: str) -> list[tuple[int, int]]:
    """The turns a reference names: `D1:3`, or several in one text. Broken ones name none."""
    return [(int(session), int(turn)) for session, turn in re.findall(r"D:?(\d+):(\d+)", reference)]
