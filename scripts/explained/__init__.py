"""How authors come to each problem, with a script that has it and the same script mended.

One file a code: a comment that tells the cause, the broken script, ``---``, the mended script. The broken line ends
with a comment that begins with ``# <-``. A line ``# file: name.yaml`` begins a side file of the script above it;
``earlier.yaml`` is the version of the script before.
"""

from collections.abc import Mapping
from importlib.resources import files

from msgspec import Struct

from scripts.diagnostics import CODES

MARK = "# <-"
SIDE_FILE = "# file: "
EARLIER = "earlier.yaml"


class Explanation(Struct, frozen=True):
    """The cause of a problem in a sentence or two, and an example of it: broken and mended."""

    cause: str
    broken: str
    mended: str


NOT_SHOWN: Mapping[str, Explanation] = {
    "FILE_UNREADABLE": Explanation(
        "The name is misspelt, the file may not be read, or it was saved in another encoding than UTF-8.",
        "cuebook check vist.yaml",
        "cuebook check visit.yaml",
    ),
    "DOCUMENT_TOO_LARGE": Explanation(
        "Several conversations, or a large table of data, were put into one file of more than a million characters.",
        "A script of 1,200,000 characters.",
        "Two scripts, one for each conversation, of 600,000 characters.",
    ),
}
"""The codes that no one small file can show, with their examples in words."""


def explanation(code: str) -> Explanation:
    """What there is to say of a code of `CODES`. Raises KeyError for another one."""
    if code in NOT_SHOWN:
        return NOT_SHOWN[code]
    if code not in CODES:
        raise KeyError(code)
    text = files(__name__).joinpath(f"{code}.yaml").read_text("utf-8")
    cause, _, rest = text.partition("\n")
    broken, _, mended = rest.partition("\n---\n")
    return Explanation(cause.removeprefix("# "), broken + "\n", mended)


def files_of(example: str) -> tuple[str, dict[str, str]]:
    """The script of an example, and its side files by name."""
    script, *sides = f"\n{example}".split(f"\n{SIDE_FILE}")
    named = (side.partition("\n") for side in sides)
    return script[1:], {name: text for name, _, text in named}
