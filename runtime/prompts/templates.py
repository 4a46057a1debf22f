"""The templates of prompts: Jinja2 files by purpose and language, of which a scheme's own come before the default ones.

``default/en/say.jinja`` belongs to the runtime; ``custom/<scheme>/en/say.jinja`` in the folder of prompts takes its
place for scripts with that `template_scheme`. All are read and compiled once, when a server starts. A template never
sees what people say: it is filled from the script alone, and written in the script language's own bounded sandbox.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from scripts.expressions import SOURCE_CHARS_MAX, Compiled, compile_template
from scripts.model import Locale
from scripts.sandbox import ExpressionInvalid
from scripts.strings import language

Name: TypeAlias = Literal[
    "say", "ask", "extract", "think", "chat", "route", "detect", "summarise", "memo", "data"
]  # fmt: skip
"""A purpose; or `data`, what every prompt says of the data beside it."""

NAMES: tuple[Name, ...] = get_args(Name)
LANGUAGES = ("en", "zh")  # that there are default templates in; the first serves all others
DEFAULT = Path(__file__).parent / "default"
CUSTOM = "custom"
SUFFIX = ".jinja"
FILES_MAX = 1_000  # of a folder of prompts
BYTES_MAX = 4 * SOURCE_CHARS_MAX

_SAFE = re.compile(r"\w[\w-]{0,63}")


class PromptInvalid(ValueError):
    """A template that cannot be used; the message names the file, and the line where there is one."""


class PromptMissing(LookupError):
    """There is no template, not even a default one; the message names it."""


class Source(Struct, frozen=True):
    """A template: where it comes from (the scheme; empty: the runtime) and its text."""

    name: Name
    language: str
    scheme: str
    path: Path
    text: str

    @property
    def compiled(self) -> Compiled:
        """Ready to be filled. Raises ExpressionInvalid."""
        return compile_template(self.text)


def is_safe_name(name: str) -> bool:
    """Whether a scheme or language may be called so: letters, digits, `_` and `-`, so that it is never a path."""
    return _SAFE.fullmatch(name) is not None


def languages_for(locale: Locale) -> tuple[str, ...]:
    """The languages to look for templates in, best first: a scheme may have its own for any."""
    own = language(locale)
    return tuple(dict.fromkeys((own, "zh" if own == "zh" else LANGUAGES[0])))


class Templates:
    """The templates that there are."""

    def __init__(self, sources: Iterator[Source]) -> None:
        self._sources = {(each.scheme, each.language, each.name): each for each in sources}

    @classmethod
    def load(cls, folder: Path | None, default: Path = DEFAULT) -> "Templates":
        """Those of the runtime and of a folder, which need not be there. Raises PromptInvalid."""
        found = [*_in_folder(default, ""), *(custom_sources(folder) if folder is not None else ())]
        for each in found:
            _check(each)
        return cls(iter(found))

    def find(self, name: Name, locale: Locale, scheme: str = "") -> Source:
        """The scheme's template, else the default one. Raises PromptMissing."""
        languages = languages_for(locale)
        for own in dict.fromkeys((scheme, "")):
            for each in languages:
                if (own, each, name) in self._sources:
                    return self._sources[own, each, name]
        file = f"default/{languages[-1]}/{name}{SUFFIX}"
        raise PromptMissing(f"there is no prompt {name}, not even a default one: {file} is missing")

    @property
    def schemes(self) -> Mapping[str, tuple[Source, ...]]:
        """All that there are, by scheme; the runtime's own under an empty name."""
        by_scheme: dict[str, tuple[Source, ...]] = {}
        for (scheme, _, _), source in sorted(self._sources.items()):
            by_scheme[scheme] = (*by_scheme.get(scheme, ()), source)
        return by_scheme


def custom_path(folder: Path, scheme: str, tongue: str, name: Name) -> Path:
    """Where a scheme's own template in a language belongs. Raises PromptInvalid for what is no name."""
    for each in (scheme, tongue):
        if not is_safe_name(each):
            raise PromptInvalid(f"{each!r} cannot be the name of a scheme or language: use letters, digits, _ and -")
    return folder / CUSTOM / scheme / tongue / f"{name}{SUFFIX}"


def custom_sources(folder: Path) -> list[Source]:
    """The templates of all schemes of a folder, unchecked. Raises PromptInvalid where one cannot even be read."""
    custom = folder / CUSTOM
    if not custom.is_dir():
        return []
    found: list[Source] = []
    for scheme in sorted(custom.iterdir()):
        if scheme.is_dir() and is_safe_name(scheme.name):
            found += _in_folder(scheme, scheme.name)
            if len(found) > FILES_MAX:
                raise PromptInvalid(f"{folder} holds more than {FILES_MAX} prompts")
    return found


def _in_folder(folder: Path, scheme: str) -> Iterator[Source]:
    """The templates of one scheme, by language."""
    names: Mapping[str, Name] = {f"{name}{SUFFIX}": name for name in NAMES}
    for each in sorted(folder.iterdir()):
        if not each.is_dir() or not is_safe_name(each.name):
            continue
        for path in sorted(each.iterdir()):
            if path.name in names:
                yield Source(names[path.name], each.name.casefold(), scheme, path, read_template(path))


def read_template(path: Path) -> str:
    """The text of a file. Raises PromptInvalid."""
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
        text = raw[:BYTES_MAX].decode("utf-8-sig", errors="strict" if len(raw) <= BYTES_MAX else "replace")
    except OSError as error:
        raise PromptInvalid(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PromptInvalid(f"{path}: byte {error.start} is not UTF-8 text") from error
    if len(text) > SOURCE_CHARS_MAX or len(raw) > BYTES_MAX:
        raise PromptInvalid(f"{path}: longer than {SOURCE_CHARS_MAX:,} characters")
    return text.replace("\r\n", "\n").rstrip("\n")


def _check(source: Source) -> None:
    if not source.text.strip():
        raise PromptInvalid(f"{source.path}: is empty; delete it, and the default prompt counts")
    try:
        compile_template(source.text)
    except ExpressionInvalid as error:
        raise PromptInvalid(f"{source.path}:{error.line}: {error}") from error
