"""Long texts that begin something thousands of times and never end it are read in a moment: every search is linear."""

import json
import time

import pytest

from scripts.parse.read_script import Source, read_script

CHARS = 19_000
SECONDS_MAX = 3  # of a busy machine; with a quadratic search, five to a hundred
NATIVE = """\
cuebook: 1
script: long
actions:
  - say: TEXT
  - {if: TEXT, then: [{say: Yes.}]}
  - set: {known: TEXT}
"""
STAGE = """\
sessions:
- session: long
  stages:
  - stage: one
    when: TEXT
    steps:
    - goal: first
      actions:
      - {say: TEXT, when: TEXT}
      - {set: known, value: TEXT}
"""
SESSION = """\
session:
  session_id: long
  phases:
  - phase_id: one
    topics:
    - topic_id: first
      actions:
      - {action_type: ai_say, action_id: say, condition: TEXT, config: {content: TEXT}}
"""
DETECTORS = "detectors:\n- {id: long, define: TEXT, words: [TEXT], examples: [TEXT], scale: TEXT}\n"


@pytest.mark.parametrize("part", ["{", "{{", "{a}", "a.", "_", "0x", "「", "“", "\t", " \n", "a, ", "!"])
@pytest.mark.parametrize("script", [NATIVE, STAGE, SESSION, DETECTORS], ids=["native", "stage", "session", "detectors"])
def test_text_with_an_unclosed_beginning_is_read_in_a_moment(script: str, part: str) -> None:
    text = part * (CHARS // len(part))
    began = time.process_time()
    read_script(Source(script.replace("TEXT", json.dumps(text, ensure_ascii=False)), "long.yaml"))
    assert time.process_time() - began < SECONDS_MAX


def test_empty_lines_are_read_in_a_moment() -> None:
    began = time.process_time()
    read_script(Source(" \n" * CHARS, "long.yaml"))
    assert time.process_time() - began < SECONDS_MAX
