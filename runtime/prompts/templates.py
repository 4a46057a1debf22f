"""The templates of prompts: Jinja2 files by purpose and language; a scheme's own override the default ones.

``default/en/say.jinja`` belongs to the runtime; ``custom/<scheme>/en/say.jinja`` in the folder of prompts replaces it
for scripts with that `template_scheme`. All are read and compiled once, when a server starts. A template never
contains users' texts: its variables come from the script alone, and it runs in the script language's bounded sandbox.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from scripts.expressions.expressions import SOURCE_CHARS_MAX, CompiledSource, compile_template
from scripts.expressions.sandbox import ExpressionInvalid
from scripts.model.script import Locale
from scripts.translations.localisation import language

Name: TypeAlias = Literal[
    "say", "ask", "extract", "think", "chat", "route", "detect", "summarise", "memo", "data", "tools"
]  # fmt: skip
"""A purpose; or a part of prompts: `data`, the rules for data, which every prompt contains; `tools`, what the model may
call before it replies.
"""

PARTS: frozenset[Name] = frozenset({"data", "tools"})
NAMES: tuple[Name, ...] = get_args(Name)
LANGUAGES = ("en", "zh")  # of the default templates; the first serves all other languages
DEFAULT = Path(__file__).parent / "default"
CUSTOM = "custom"
SUFFIX = ".jinja"
FILES_MAX = 1_000  # in a folder of prompts
BYTES_MAX = 4 * SOURCE_CHARS_MAX

_SAFE = re.compile(r"\w[\w-]{0,63}")


class PromptInvalid(ValueError):
    """An invalid template; the message names the file, and the line if known."""


class PromptMissing(LookupError):
    """A template that exists neither in the project nor by default; the message names it."""


class TemplateSource(Struct, frozen=True):
    """A template: its origin (the scheme; empty: the runtime) and its text."""

    name: Name
    language: str
    scheme: str
    path: Path
    text: str

    @property
    def compiled(self) -> CompiledSource:
        """Return the compiled template. Raises ExpressionInvalid."""
        return compile_template(self.text)


def is_safe_name(name: str) -> bool:
    """Return whether a name of a scheme or language is valid: letters, digits, `_` and `-`, so never a path."""
    return _SAFE.fullmatch(name) is not None


def languages_for(locale: Locale) -> tuple[str, ...]:
    """Return the languages to look for templates in, best first: a scheme may have templates in any language."""
    own = language(locale)
    return tuple(dict.fromkeys((own, "zh" if own == "zh" else LANGUAGES[0])))


class Templates:
    """All templates of a server."""

    def __init__(self, sources: Iterator[TemplateSource]) -> None:
        self._sources = {(each.scheme, each.language, each.name): each for each in sources}

    @classmethod
    def load(cls, folder: Path | None, default: Path = DEFAULT) -> "Templates":
        """Load the templates of the runtime and of a folder, which need not exist. Raises PromptInvalid."""
        found = [*_in_folder(default, ""), *(custom_sources(folder) if folder is not None else ())]
        for each in found:
            _check(each)
        return cls(iter(found))

    def with_template(self, source: TemplateSource) -> "Templates":
        """Return these templates with another one in place of that of its scheme and language. Raises PromptInvalid."""
        _check(source)
        return Templates(iter((*self._sources.values(), source)))

    def find(self, name: Name, locale: Locale, scheme: str = "") -> TemplateSource:
        """Return the scheme's template, else the default one. Raises PromptMissing."""
        languages = languages_for(locale)
        for own in dict.fromkeys((scheme, "")):
            for each in languages:
                if (own, each, name) in self._sources:
                    return self._sources[own, each, name]
        file = f"default/{languages[-1]}/{name}{SUFFIX}"
        raise PromptMissing(f"there is no prompt {name}, not even a default one: {file} is missing")

    @property
    def schemes(self) -> Mapping[str, tuple[TemplateSource, ...]]:
        """Return all templates by scheme; the runtime's own under an empty name."""
        by_scheme: dict[str, tuple[TemplateSource, ...]] = {}
        for (scheme, _, _), source in sorted(self._sources.items()):
            by_scheme[scheme] = (*by_scheme.get(scheme, ()), source)
        return by_scheme


def custom_path(folder: Path, scheme: str, language_code: str, name: Name) -> Path:
    """Return the path of a scheme's own template in a language. Raises PromptInvalid for an invalid name."""
    for each in (scheme, language_code):
        if not is_safe_name(each):
            raise PromptInvalid(f"{each!r} cannot be the name of a scheme or language: use letters, digits, _ and -")
    return folder / CUSTOM / scheme / language_code / f"{name}{SUFFIX}"


def custom_sources(folder: Path) -> list[TemplateSource]:
    """Return the templates of all schemes of a folder, unchecked. Raises PromptInvalid for an unreadable file."""
    custom = folder / CUSTOM
    if not custom.is_dir():
        return []
    found: list[TemplateSource] = []
    for scheme in sorted(custom.iterdir()):
        if scheme.is_dir() and is_safe_name(scheme.name):
            found += _in_folder(scheme, scheme.name)
            if len(found) > FILES_MAX:
                raise PromptInvalid(f"{folder} contains more than {FILES_MAX} prompts")
    return found


def _in_folder(folder: Path, scheme: str) -> Iterator[TemplateSource]:
    """Yield the templates of one scheme, by language."""
    names: Mapping[str, Name] = {f"{name}{SUFFIX}": name for name in NAMES}
    for each in sorted(folder.iterdir()):
        if not each.is_dir() or not is_safe_name(each.name):
            continue
        for path in sorted(each.iterdir()):
            if path.name in names:
                yield TemplateSource(names[path.name], each.name.casefold(), scheme, path, read_template(path))


def read_template(path: Path) -> str:
    """Return the text of a file. Raises PromptInvalid."""
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


def _check(source: TemplateSource) -> None:
    if not source.text.strip():
        raise PromptInvalid(f"{source.path}: is empty; delete it to use the default prompt")
    try:
        compile_template(source.text)
    except ExpressionInvalid as error:
        raise PromptInvalid(f"{source.path}:{error.line}: {error}") from error
