"""The structure of one language's data: the default texts, and the words by which answers are parsed."""

from collections.abc import Mapping

from msgspec import Struct

from scripts.model.script import RepairKind
from scripts.translations.localisation import Phrase


class YesNo(Struct, frozen=True, forbid_unknown_fields=True):
    """Words of yes and no. `yes` counts at the start of a clause; `agrees` only if the clause says nothing else.

    A word of `no` counts anywhere, one of `no_alone` only by itself. A word of `unsure` leaves the answer open.
    `fillers` precede an answer, `polite` words follow it. Words of `accented` count only with their accents: sí is not
    si.
    """

    yes: tuple[str, ...]
    agrees: tuple[str, ...]
    no: tuple[str, ...]
    no_alone: tuple[str, ...]
    unsure: tuple[str, ...]
    fillers: tuple[str, ...]
    polite: tuple[str, ...]
    accented: frozenset[str] = frozenset()


class NumberWords(Struct, frozen=True, forbid_unknown_fields=True):
    """The data for number words besides the library that parses them.

    `articles` are numbers only in some positions, with the value of the first of them; `between` are words between
    two alternative numbers, the first for "or", the second for "to"; `no_counts` only look like numbers; `rough`
    words make a number unreadable; `at_least` words do not negate; `respelled` maps spellings without accents to
    those the library knows; `fixed` are words with a value of their own.
    """

    articles: tuple[str, ...]
    between: tuple[str, ...]
    no_counts: tuple[str, ...]
    rough: tuple[str, ...]
    scales: Mapping[str, int]
    decimals: frozenset[str]
    minus: tuple[str, ...]
    at_least: tuple[str, ...]
    and_half: tuple[str, ...]
    joined_half: tuple[str, ...] = ()
    fixed: Mapping[str, str] = {}
    respelled: Mapping[str, str] = {}


class DayWords(Struct, frozen=True, forbid_unknown_fields=True):
    """Words of days relative to today; None for a phrase that contains such a word but names no day.

    `ago` and `ahead` are patterns with `{}` for a number and its unit. Names of months and weekdays come from CLDR.
    """

    days: Mapping[str, int | None]
    ago: tuple[str, ...]
    ahead: tuple[str, ...]
    day_units: tuple[str, ...]
    week_units: tuple[str, ...]
    next: tuple[str, ...]
    last: tuple[str, ...]
    this: tuple[str, ...]
    one: tuple[str, ...]


class TimeWords(Struct, frozen=True, forbid_unknown_fields=True):
    """Words of clock times.

    `hour` follows a number of hours (``9 Uhr``, ``9h30``), `before` precedes an hour (``at 9``). `am`, `pm` and `night`
    say which half of the day a time is in; with `night`, 1 to 5 are in the early morning. `minutes` are patterns with
    `{}` for an hour, and the minutes to add to it: ``half past {}``, ``halb {}``. `midday` is noon by itself; beside an
    hour it is the time around noon: ``中午一点`` is 13:00.
    """

    hour: tuple[str, ...]
    am: tuple[str, ...]
    pm: tuple[str, ...]
    noon: tuple[str, ...]
    midnight: tuple[str, ...]
    minutes: Mapping[str, int]
    before: tuple[str, ...]
    night: tuple[str, ...] = ()
    midday: tuple[str, ...] = ()


class ChoiceWords(Struct, frozen=True, forbid_unknown_fields=True):
    """Words around a choice: before and after it, for its position, and those that reject it."""

    leads: tuple[str, ...]
    tails: tuple[str, ...]
    ordinals: Mapping[str, int]
    nouns: tuple[str, ...]
    but: tuple[str, ...]
    without: tuple[str, ...]


class Language(Struct, frozen=True, forbid_unknown_fields=True):
    """The data of one language.

    The grammars of English and Chinese are code in `runtime.answers`; for these languages `yes_no` and `numbers` are
    None, for Chinese also `dates`, with its words of days in `day_offsets`. `collides` are English words with another
    meaning in this language, which are not read as English.
    """

    code: str
    phrases: Mapping[Phrase, str]
    farewells: tuple[str, ...]
    repairs: Mapping[RepairKind, tuple[str, ...]]
    becomes: tuple[str, ...]
    joins: tuple[str, ...]
    nothing: tuple[str, ...]
    is_words: tuple[str, ...]
    before_labels: tuple[str, ...]
    times: TimeWords
    choices: ChoiceWords | None = None
    yes_no: YesNo | None = None
    numbers: NumberWords | None = None
    dates: DayWords | None = None
    day_offsets: Mapping[str, int] = {}
    ordinal_suffixes: tuple[str, ...] = ()
    digraphs: Mapping[str, str] = {}
    collides: frozenset[str] = frozenset()
