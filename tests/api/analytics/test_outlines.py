"""The outline of a script tells what the author wrote for each action that says something."""

import pytest

from api.analytics.outlines import outline_of
from scripts.parse.read_script import Source, read_script

VISIT = """\
cuebook: 1
script: visit
actions:
  - {say: Welcome.}
  - {ask: What is your name?, into: name}
  - {form: facts}
  - {form: titled}
  - {chat: Talk about the week., exit: they are done}
forms:
  - {form: facts, title: Facts, text: Please fill this in., fields: [{field: city}]}
  - {form: titled, title: More facts, fields: [{field: street}]}
"""


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("say", ["Welcome."]),
        ("ask", ["What is your name?"]),
        ("form", ["Please fill this in.", "More facts"]),
        ("chat", ["Talk about the week."]),
    ],
)
def test_what_the_author_wrote_is_there(kind: str, says: list[str]) -> None:
    script = read_script(Source(VISIT, ""), "strict").script
    assert script is not None
    actions = outline_of([("a digest", script)]).actions
    assert [each.says for each in actions if each.action_type == kind] == says
