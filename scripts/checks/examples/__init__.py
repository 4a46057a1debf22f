"""The cause of each problem, with a script that has it and the fixed script.

There is one file per code: a comment with the cause, the broken script, ``---``, the fixed script. The broken line
ends with a comment that starts with ``# <-``. A line ``# file: name.yaml`` starts an include file of the script above;
``earlier.yaml`` is the previous version of the script.
"""

from collections.abc import Mapping
from importlib.resources import files

from msgspec import Struct

from scripts.model.diagnostics import CODES

MARK = "# <-"


class Explanation(Struct, frozen=True):
    """The cause of a problem in a sentence or two, and an example of it: before and after the fix."""

    cause: str
    broken: str
    fixed: str


NOT_SHOWN: Mapping[str, Explanation] = {
    "FILE_UNREADABLE": Explanation(
        "The name is misspelt, read access is denied, or it has another encoding than UTF-8.",
        "cuebook check vist.yaml",
        "cuebook check visit.yaml",
    ),
    "DOCUMENT_TOO_LARGE": Explanation(
        "Several conversations, or a large table of data, were put into one file of more than a million characters.",
        "A script of 1,200,000 characters.",
        "Two scripts, one for each conversation, of 600,000 characters.",
    ),
}
"""The codes that a small file cannot show, with their examples in words."""


def explanation(code: str) -> Explanation:
    """Return the explanation of a code. Raises KeyError if the code is not in `CODES`."""
    if code in NOT_SHOWN:
        return NOT_SHOWN[code]
    if code not in CODES:
        raise KeyError(code)
    text = files(__name__).joinpath(f"{code}.yaml").read_text("utf-8")
    cause, _, rest = text.partition("\n")
    broken, _, fixed = rest.partition("\n---\n")
    return Explanation(cause.removeprefix("# "), broken + "\n", fixed)
