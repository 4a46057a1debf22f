"""Scripts of every form with something changed in them, drawn at random from a seed; see `main` for long runs.

    python tests/slow/mutate_scripts.py --count 100000

prints how many were read and each that was not read to its end, with the seed that makes it again.
"""

import argparse
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from rich.progress import track

from scripts.parse.read_script import Source, read_script
from tests.support.paths import ROOT

FOLDERS = ("scripts", "tests/data")
BATCH = 250
SLOW_S = 2
HEAD = "script: carrier\nuse: [side.yaml]\nphases: [{phase: p, topics: [{topic: t, actions: [{say: Hi., id: hi}]}]}]\n"
PIECES = (
    "{{", "}}", "{%", "%}", "${", ": ", "- ", "\n", "\n\n", "\t", "'", '"', "|", "| # note\n", ">-\n", "&a ", "*a",
    "!!x ", "---\n", "<<: ", "[", "]", "{", "}", "\x00", "\ud800", "\ufeff", "\u2028", "\x85", "9" * 400, "~", "#", "%",
    "用户", "😀", "：", "，", "【", "“", "goto ", "  ", "\r\n", "&&", "||", "==", "=", ">= ", " as ", "python:",
    "null", "-",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 15, 10**30, 1.5, float("inf"), "", " ", "{{", "{{ x }}", "{x} > 1", "a b", "now",
    "goto x", "x" * 300, "用户", "resume", [], {}, [[]], [None], [{}], {"": None}, {"a": {"b": 1}}, {"goto": 5},
    ["a", 1, None], {"get": "x"}, [{"get": "x"}, {"set": "y", "value": "x"}],
    {"say": "Hi."}, [{"say": "Hi."}, {"end": ""}], {"do": []},
)  # fmt: skip


def sources() -> list[str]:
    """Return the scripts to change: ours and those of the folder in SCRIPT_CORPUS; valid ones as often as broken."""
    folders = [ROOT / name for name in FOLDERS]
    folders += [Path(os.environ["SCRIPT_CORPUS"])] if os.environ.get("SCRIPT_CORPUS") else []
    files = sorted(file for folder in folders for file in folder.rglob("*.yaml"))
    texts = [file.read_text("utf-8", errors="replace") for file in files if file.stat().st_size < 60_000]
    sound = [text for text in texts if read_script(Source(text)).script is not None]
    return [*texts, *sound * (len(texts) // len(sound))]


def mutant(chance: random.Random, texts: list[str]) -> str:
    """Return one script with a few changes: in its text, or in its tree."""
    text = chance.choice(texts)
    documents = _trees(text) if chance.random() < 0.6 else []
    if not documents:
        return _cut(chance, text)
    document = documents[0]
    for _ in range(chance.randint(1, 3)):
        _change_below(chance, document)
    return str(yaml.safe_dump(document, allow_unicode=True, sort_keys=False, width=chance.choice([40, 120])))


def _trees(text: str) -> list[Any]:
    try:
        found = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, ValueError):
        return []
    return [each for each in found if isinstance(each, dict | list)]


def _cut(chance: random.Random, text: str) -> str:
    for _ in range(chance.randint(1, 3)):
        start = chance.randint(0, len(text))
        text = text[:start] + chance.choice(("", *PIECES)) + text[start + chance.choice([0, 0, 1, 3, 12]) :]
    return text


def _change_below(chance: random.Random, part: Any) -> None:
    """Go down at random and there drops, renames, doubles, moves or replaces something."""
    keys = list(part) if isinstance(part, dict) else list(range(len(part)))
    if not keys:
        return
    key = chance.choice(keys)
    if isinstance(part[key], dict | list) and part[key] and chance.random() < 0.8:
        _change_below(chance, part[key])
        return
    how = chance.choice(["drop", "rename", "double", "swap", "replace", "replace"])
    if how == "drop":
        del part[key]
    elif how == "rename" and isinstance(part, dict):
        part[chance.choice([*keys, "say", "id", "when", "x", "", "declare", "on", "do", "forms"])] = part.pop(key)
    elif how == "double" and isinstance(part, list):
        part.append(deepcopy(part[key]))
    elif how == "swap":
        other = chance.choice(keys)
        part[key], part[other] = part[other], part[key]
    else:
        part[key] = deepcopy(chance.choice(ODD))


def unsound(text: str) -> Iterator[str]:
    """Return what is wrong with how a text is read, as a script and as an include file; empty if nothing is."""
    lines = text.count("\n") + sum(map(text.count, "\r\x85\u2028\u2029")) + 1
    tries = (Source(text, "talk.yaml"), Source(HEAD, "carrier.yaml", {"side.yaml": text}))
    for source, mode in ((tries[0], "strict"), (tries[0], "compat"), (tries[1], "compat")):
        reading = read_script(source, mode)
        if (reading.script is None) != bool(reading.errors):
            yield f"{mode}: a script in spite of errors, or none without"
        for problem in reading.problems:
            limit = lines if problem.file in {"talk.yaml", "side.yaml"} else HEAD.count("\n")
            if not (1 <= problem.line <= limit + 1 and 1 <= problem.column <= len(text) + len(HEAD) + 1):
                yield f"{mode}: {problem} stands outside of its file"
            if not (problem.message and problem.fix and problem.file):
                yield f"{mode}: {problem} says too little"


def batch(first: int, count: int) -> tuple[list[str], Counter[str]]:
    """Read the mutants of a run of seeds: what was unsound, and how often a script was sound or broken."""
    texts = sources()
    found: list[str] = []
    tally: Counter[str] = Counter()
    for seed in range(first, first + count):
        text = mutant(random.Random(seed), texts)
        started = time.perf_counter()
        try:
            found += [f"seed {seed}: {what}" for what in unsound(text)]
            tally["sound"] += read_script(Source(text)).script is not None
        except Exception:  # noqa: BLE001  (whatever leaves the reader is what is looked for)
            found.append(f"seed {seed}:\n{traceback.format_exc()}")
        tally["slow"] += time.perf_counter() - started > SLOW_S
    return found, tally


def main() -> None:
    """Read many mutants, on all processors."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    starts = range(given.first, given.first + given.count, BATCH)
    tally: Counter[str] = Counter()
    bad = 0
    with ProcessPoolExecutor() as pool:
        for found, counted in track(pool.map(batch, starts, [BATCH] * len(starts)), "reading", len(starts)):
            tally += counted
            bad += len(found)
            sys.stderr.writelines(f"{line}\n" for line in found)
    sys.stdout.write(
        f"{given.count:,} changed scripts read, {tally['sound']:,} still sound, {tally['slow']} in over {SLOW_S} s, "
        f"{bad} not as they should be\n"
    )
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
