"""The console explains each problem of a script and each error of the API in its other language too."""

from pathlib import Path

import msgspec

from api.errors import CODES as ERRORS
from scripts.model.diagnostics import CODES as PROBLEMS

FILE = Path(__file__).parents[3] / "api/console/web/src/strings/meanings.zh.json"


def test_each_code_has_a_meaning() -> None:
    meanings = msgspec.json.decode(FILE.read_bytes(), type=dict[str, dict[str, str]])
    assert {kind: list(texts) for kind, texts in meanings.items()} == {
        "problems": list(PROBLEMS),
        "errors": list(ERRORS),
    }
    texts = [text for kind in meanings.values() for text in kind.values()]
    assert len(set(texts)) == len(texts)
    assert all(text.endswith(("。", ".")) for text in texts)
