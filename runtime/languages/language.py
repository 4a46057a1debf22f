"""The shape of the data of one language: what the runtime says in it, and the words in which it reads answers."""

from collections.abc import Mapping

from msgspec import Struct

from scripts.model import RepairKind
from scripts.strings import Phrase


class YesNo(Struct, frozen=True):
    """Words of yes and no. `yes` counts at the start of a clause; `agrees` only where nothing else is said.

    A word of `no` stands anywhere, one of `no_alone` by itself. A word of `unsure` leaves the answer open. `fillers`
    come before an answer, `polite` words after it. Words of `accented` count only with their accents: sí is not si.
    """

    yes: tuple[str, ...]
    agrees: tuple[str, ...]
    no: tuple[str, ...]
    no_alone: tuple[str, ...]
    unsure: tuple[str, ...]
    fillers: tuple[str, ...]
    polite: tuple[str, ...]
    accented: frozenset[str] = frozenset()


class NumberWords(Struct, frozen=True):
    """What number words need beside the library that reads them.

    `articles` are numbers only in some places, and count as the first of them; `between` are words between two numbers
    of which an answer is one or the other; `no_counts` only look like numbers;
    `rough` words make a number unreadable; `at_least` words do not negate; `respelled` maps spellings without accents
    to those the library knows; `fixed` are words with a value of their own.
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


class DayWords(Struct, frozen=True):
    """Words of days, counted from today; None where a phrase has such a word in it and names no day.

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


class ChoiceWords(Struct, frozen=True):
    """Words around a choice: before and after it, for its place, and those that turn it down."""

    leads: tuple[str, ...]
    tails: tuple[str, ...]
    ordinals: Mapping[str, int]
    nouns: tuple[str, ...]
    but: tuple[str, ...]
    without: tuple[str, ...]


class Language(Struct, frozen=True):
    """The data of one language.

    The grammars of English and Chinese are code, in `runtime.answers`; of these languages `yes_no` and `numbers` are
    None. `collides` are English words that mean something else here, so that they are not read as English.
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
    choices: ChoiceWords | None = None
    yes_no: YesNo | None = None
    numbers: NumberWords | None = None
    dates: DayWords | None = None
    ordinal_suffixes: tuple[str, ...] = ()
    digraphs: Mapping[str, str] = {}
    collides: frozenset[str] = frozenset()
