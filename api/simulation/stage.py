"""The scripts that simulated visitors come to: their versions, from when on each is offered, and in which languages."""

from datetime import datetime

from msgspec import Struct

from runtime.program import Program
from scripts.actions import AiAsk, Ask, Chat, Choose, Form, Recall
from scripts.model import Locale, Script, all_actions
from scripts.nodes import Expression, Template
from scripts.parse import Source, read_script
from scripts.strings import language, own_locale
from store.rows import ScriptRow

LONGER = 0.25
"""How much more visitors a script draws that asks more: 0: no more; 1: twice as many, where it asks twice as much."""


class Version(Struct, frozen=True):
    """A published version of a script."""

    row: ScriptRow
    source: Source
    since: datetime  # from when on new sessions begin with it


class Offered(Struct, frozen=True):
    """All versions of one script, the oldest first."""

    versions: tuple[Version, ...]

    def at(self, moment: datetime) -> Version:
        """What a session begins with."""
        return next((each for each in reversed(self.versions) if each.since <= moment), self.versions[0])


class Stage:
    """The programs of all scripts on offer, each read once."""

    def __init__(self, offered: tuple[Offered, ...]) -> None:
        self.offered = offered
        self._programs: dict[tuple[str, Locale], Program] = {}
        sources = {version.row.digest: version.source for each in offered for version in each.versions}
        self._own = {digest: Program(_script_of(source)) for digest, source in sources.items()}
        self._asking_memory = {digest for digest, program in self._own.items() if asks_memory(program.script)}
        self.languages = [self._languages(each) for each in offered]
        self.draws = [_questions(self._own[each.versions[0].row.digest].script) ** LONGER for each in offered]
        """How many visitors each of them draws, against the others."""

    def program(self, digest: str, locale: Locale) -> Program:
        """A script with the texts of a language."""
        key = (digest, locale)
        if key not in self._programs:
            self._programs[key] = self._own[digest].in_locale(locale)
        return self._programs[key]

    def locale(self, digest: str, wanted: str) -> Locale:
        """The locale of a session of somebody who likes a language best."""
        own = self._own[digest]
        tables = (table.locale for table in own.script.strings)
        return next((each for each in (own.locale, *tables) if language(each) == wanted), own.locale)

    def asks_memory(self, digest: str) -> bool:
        """Whether sessions of a script look up what the user's memory holds."""
        return digest in self._asking_memory

    def _languages(self, offered: Offered) -> frozenset[str]:
        scripts = [self._own[version.row.digest].script for version in offered.versions]
        return frozenset(
            language(each) for script in scripts for each in (own_locale(script), *(s.locale for s in script.strings))
        )


def _script_of(source: Source) -> Script:
    script = read_script(source, "compat").script
    if script is None:  # it was published a moment ago
        raise ValueError(f"{source.file} cannot be run")
    return script


def _questions(script: Script) -> int:
    """How much a script asks, at least 1."""
    return max(1, sum(isinstance(each, Ask | AiAsk | Choose | Form | Chat) for each in all_actions(script)))


def asks_memory(script: Script) -> bool:
    """Whether anything in a script looks up what the user's memory holds."""
    if script.memory.recall == "always" or any(isinstance(each, Recall) for each in all_actions(script)):
        return True
    return _has_recall(script)


def _has_recall(part: object) -> bool:
    match part:
        case Expression() | Template():
            return "recall(" in part.source
        case Struct():
            return any(_has_recall(getattr(part, name)) for name in part.__struct_fields__)
        case tuple():
            return any(map(_has_recall, part))
        case dict():
            return any(map(_has_recall, part.values()))
        case _:
            return False
