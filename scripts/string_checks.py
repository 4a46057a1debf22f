"""What is wrong between a script and its string tables: texts that are missing, stale, of no line, or read too much."""

from collections.abc import Mapping
from typing import get_args

from scripts.diagnostics import Problems
from scripts.expressions import compile_template
from scripts.model import Script, StringTable, Translation
from scripts.nodes import Location
from scripts.sandbox import ExpressionInvalid
from scripts.strings import Line, Phrase, lines_of, own_locale
from scripts.suggest import suggest

LISTED_MAX = 20  # places of one kind for each table; more would bury the other problems

_UPDATE = "Run `cuebook strings SCRIPT --locale {}`"


def check_strings(script: Script, problems: Problems) -> None:
    """Adds every problem of a script's string tables; the ids must be complete."""
    if not script.strings:
        return
    lines = lines_of(script)
    for line in lines:
        if not line.id:
            message = "no id of its own names this action, so its texts cannot be translated"
            problems.add("STRING_WITHOUT_ID", message, line.owner)
    _check_locales(script, problems)
    by_id = {line.id: line for line in lines if line.id}
    for table in script.strings:
        _Table(table, by_id, problems).check(is_own=table.locale.casefold() == (script.locale or "").casefold())


def _check_locales(script: Script, problems: Problems) -> None:
    seen: dict[str, StringTable] = {}
    for table in script.strings:
        first = seen.setdefault(table.locale.casefold(), table)
        if first is not table:
            message = f"{first.at.file or 'another file'} is a string table for {table.locale} already"
            problems.add("LOCALE_TWICE", message, table.mark("strings"))
    if script.locale is None and own_locale(script) in seen:
        message = f"nothing says what language the texts are in, and there is a string table for {own_locale(script)}"
        problems.add("LOCALE_MISSING", message, script.at)


class _Table:
    def __init__(self, table: StringTable, lines: Mapping[str, Line], problems: Problems) -> None:
        self._table = table
        self._lines = lines
        self._problems = problems
        self._update = _UPDATE.format(table.locale)

    def check(self, *, is_own: bool) -> None:
        """`is_own`: the table is for the language of the script itself, so that lines may be missing."""
        self._phrases()
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
                self._problems.add("UNKNOWN_KEY", f"the runtime has no sentence `{name}`", at, fix=suggest(name, known))
            if "{{" in text or "{%" in text:
                message = f"the sentence `{name}` knows no variables; only {{choices}} of `choice` is filled in"
                self._problems.add("STRING_PLACEHOLDERS", message, at)

    def _unknown(self) -> None:
        found = [(id, each) for id, each in self._table.lines.items() if id not in self._lines]
        for number, (id, translation) in enumerate(found):
            otherwise = f"{self._update}: it sets the line aside."
            # looking for a word that is close takes its time
            fix = suggest(id, list(self._lines), otherwise) if number < LISTED_MAX else otherwise
            self._problems.add("STRING_UNKNOWN", f"the script has no line {id}", translation.at, fix=fix)

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
            fix = "Look at the translation; then remove its `was`, or let `of` be the text of the script."
            self._problems.add("STRING_STALE", message, translation.at, fix=fix)
        try:
            reads = compile_template(translation.text.source).reads
        except ExpressionInvalid as error:
            at = translation.text.at
            below = Location(at.line + error.line - 1, 1 if error.line > 1 else at.column, at.file)
            self._problems.add("STRING_PLACEHOLDERS", str(error), below)
            return
        try:
            known = compile_template(line.text).reads
        except ExpressionInvalid:
            return  # the script's own problem
        if is_stale:
            return  # what it reads too much or too little is the change itself
        at = translation.text.at
        for name in sorted(reads - known):
            message = f"the translation reads `{name}`, the script's text does not"
            self._problems.add("STRING_PLACEHOLDERS", message, at, fix=suggest(name, sorted(known), "Leave it out."))
        for name in sorted(known - reads):
            message = f"the script's text reads `{name}`, the translation does not"
            fix = f"Write {{{{ {name} }}}} where it belongs, unless the language does without."
            self._problems.add("STRING_PLACEHOLDERS", message, at, fix=fix, severity="note")
