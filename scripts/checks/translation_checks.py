"""Check string tables against their script: missing, stale and unknown lines, and differing placeholders."""

from collections.abc import Mapping
from typing import get_args

from scripts.expressions.expressions import compile_template
from scripts.expressions.sandbox import ExpressionInvalid
from scripts.expressions.suggestions import suggest
from scripts.model.diagnostics import Problems
from scripts.model.script import Script, StringTable, Translation
from scripts.translations.localisation import Line, Phrase, lines_of, own_locale

LISTED_MAX = 20  # problems of one kind per table; more would hide the other problems

_UPDATE = "Run `cuebook strings SCRIPT --locale {}`"


def check_strings(script: Script, problems: Problems, *, is_whole: bool) -> None:
    """Add every problem of a script's string tables; every node must have an id.

    `is_whole` is whether no part of the script is unreadable, for which a line may be unknown or an id be missing.
    """
    if not script.strings:
        return
    lines = lines_of(script)
    for line in lines if is_whole else ():
        if not line.id:
            message = "the action has no id of its own, so its texts cannot be translated"
            problems.add("STRING_WITHOUT_ID", message, line.owner)
    _check_locales(script, problems)
    by_id = {line.id: line for line in lines if line.id}
    for table in script.strings:
        is_own = table.locale.casefold() == (script.locale or "").casefold()
        _Table(table, by_id, problems).check(is_own=is_own, is_whole=is_whole)


def _check_locales(script: Script, problems: Problems) -> None:
    seen: dict[str, StringTable] = {}
    for table in script.strings:
        first = seen.setdefault(table.locale.casefold(), table)
        if first is not table:
            message = f"{first.at.file or 'another file'} is already a string table for {table.locale}"
            problems.add("LOCALE_TWICE", message, table.mark("strings"))
    if script.locale is None and own_locale(script) in seen:
        message = f"the script has no `locale`, and there is a string table for {own_locale(script)}"
        problems.add("LOCALE_MISSING", message, script.at)


class _Table:
    def __init__(self, table: StringTable, lines: Mapping[str, Line], problems: Problems) -> None:
        self._table = table
        self._lines = lines
        self._problems = problems
        self._update = _UPDATE.format(table.locale)

    def check(self, *, is_own: bool, is_whole: bool) -> None:
        """`is_own`: the table has the language of the script itself, so lines may be missing."""
        self._phrases()
        if is_whole:
            self._unknown()
        for id, translation in self._table.lines.items():
            if id in self._lines and not translation.is_missing:
                self._translation(self._lines[id], translation)
        if not is_own:
            self._missing()

    def _phrases(self) -> None:
        known = get_args(Phrase)
        for name, text in self._table.phrases.items():
            at = self._table.mark(f"phrases.{name}")
            if name not in known:
                self._problems.add("UNKNOWN_KEY", f"the runtime has no phrase `{name}`", at, fix=suggest(name, known))
            if "{{" in text or "{%" in text:
                message = f"the phrase `{name}` cannot contain variables; only `choice` has a placeholder, {{choices}}"
                self._problems.add("STRING_PLACEHOLDERS", message, at)

    def _unknown(self) -> None:
        found = [(id, each) for id, each in self._table.lines.items() if id not in self._lines]
        for number, (id, translation) in enumerate(found):
            otherwise = f"{self._update}: it moves the line to `unused`."
            # the search for similar words is slow
            fix = suggest(id, list(self._lines), otherwise) if number < LISTED_MAX else otherwise
            self._problems.add("STRING_UNKNOWN", f"unknown line {id}", translation.at, fix=fix)

    def _missing(self) -> None:
        translated = {id for id, each in self._table.lines.items() if not each.is_missing}
        missing = [line for id, line in self._lines.items() if id not in translated]
        fix = f"{self._update} and fill in the text."
        for line in missing[:LISTED_MAX]:
            self._problems.add("STRING_MISSING", f"{line.id} has no text in {self._table.locale}", line.at, fix=fix)
        if len(missing) > LISTED_MAX:
            message = f"{len(missing) - LISTED_MAX} more lines of the script have no text in {self._table.locale}"
            self._problems.add("STRING_MISSING", message, self._table.mark("strings"), fix=fix)

    def _translation(self, line: Line, translation: Translation) -> None:
        is_stale = translation.was is not None or translation.of not in {None, line.text}
        if is_stale:
            message = f"the text of {line.id} has changed since it was translated"
            fix = "Review the translation; then remove its `was`, or set `of` to the text of the script."
            self._problems.add("STRING_STALE", message, translation.at, fix=fix)
        try:
            reads = translation.text.compiled.reads
        except ExpressionInvalid as error:
            self._problems.add("STRING_PLACEHOLDERS", str(error), translation.text.line_at(error.line))
            return
        try:
            known = compile_template(line.text).reads
        except ExpressionInvalid:
            return  # reported for the script itself
        if is_stale:
            return  # a stale translation differs because of the change itself
        at = translation.text.at
        for name in sorted(reads - known):
            message = f"the translation uses `{name}`, but the script's text does not"
            self._problems.add("STRING_PLACEHOLDERS", message, at, fix=suggest(name, sorted(known), "Remove it."))
        for name in sorted(known - reads):
            message = f"the script's text uses `{name}`, but the translation does not"
            fix = f"Add {{{{ {name} }}}}, unless the language does not need it."
            self._problems.add("STRING_PLACEHOLDERS", message, at, fix=fix, severity="note")
