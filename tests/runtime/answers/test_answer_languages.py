"""What replies mean in the language of their locale: read where it is plain, and never taken for its opposite."""

import time
from datetime import date, timedelta
from typing import get_args

import pytest
from babel.dates import format_date
from babel.numbers import format_decimal
from hypothesis import given
from hypothesis import strategies as st

from runtime.answers.booleans import parse_boolean
from runtime.answers.choices import match_choice
from runtime.answers.dates import parse_date
from runtime.answers.languages import LANGUAGES, phrase
from runtime.answers.languages.spelling import strip_accents
from runtime.answers.lists import parse_list
from runtime.answers.numbers import parse_number
from runtime.answers.reply_values import labelled_parts, parse_answer
from runtime.state.state import Choice
from scripts.checks.answer_words import ANSWERED_IN
from scripts.detectors.words import find_mentioned
from scripts.model.script import RepairKind
from scripts.translations.localisation import Phrase
from tests.support.number_spellings import SPELLED
from tests.support.runtime_session import StartSession

TODAY = date(2026, 3, 4)  # a Wednesday
BY_WORDS = sorted(code for code, known in LANGUAGES.items() if known.yes_no is not None)

YES = {
    "de": "ja|Ja.|ja, gerne|na klar|natürlich|selbstverstaendlich|ich glaube schon|stimmt|kein Problem|doch|also, ja"
    "|ja, ich schlafe schlecht|ja ich habe zwei|Auf jeden Fall!|warum nicht|yes|ok",
    "fr": "oui|ouais|bien sûr|Bien sur|d'accord|D’accord !|tout à fait|pas de problème|pourquoi pas|je crois que oui"
    "|oui, merci|oui j'ai deux enfants|si|mais si|volontiers|c'est ça|yes",
    "es": "sí|si|Sí, claro|si claro|claro que sí|por supuesto|creo que sí|creo que si|vale|de acuerdo|¡Sí!|sí, dos"
    "|sin problema|no hay problema|sí señor|yes",
    "it": "sì|si|Sì, certo|va bene|d'accordo|credo di sì|penso di si|esatto|perché no|nessun problema|volentieri|yes",
    "pt": "sim|Sim, claro|com certeza|acho que sim|tenho|tenho sim|é|pode|tudo bem|sem problema|por que não|yes",
    "nl": "ja|jazeker|ja hoor|natuurlijk|dat klopt|zeker|ik denk het wel|prima|geen probleem|waarom niet|ja, graag|yes",
    "ja": "yes|ok|Yes, I do",
    "pl": "yes",
}
NO = {
    "de": "nein|Nein!|nö|nicht wirklich|ich glaube nicht|auf keinen Fall|überhaupt nicht|eher nicht|natürlich nicht"
    "|ich habe keine Kinder|stimmt nicht|nein danke|kaum|von wegen|lieber nicht|no|I don't think so",
    "fr": "non|Non merci|pas vraiment|pas du tout|je ne crois pas|bien sûr que non|jamais|je n'ai pas d'enfants"
    "|hors de question|plutôt non|no",
    "es": "no|No.|no mucho|ni hablar|no creo|claro que no|para nada|nunca|qué va|que va|tampoco|no tengo hijos"
    "|de ninguna manera",
    "it": "no|no grazie|non proprio|non credo|mai|certo che no|nemmeno|macché|non ho figli|assolutamente no",
    "pt": "não|nao|Não, obrigado|não muito|claro que não|acho que não|nunca|nem pensar|de jeito nenhum|no",
    "nl": "nee|neen|niet echt|echt niet|ik denk het niet|zeker niet|nooit|geen sprake van|nee dank je|liever niet|no",
    "ja": "no|not really",
    "pl": "nope|not really",
}
NEITHER = {
    "de": "vielleicht|weiß nicht|weiss nicht|keine Ahnung|jein|ja und nein|ja, nein|manchmal|ja nicht|ja?|naja|Not"
    "|das ist ja schlimm|kommt drauf an|nicht sicher|28|ich bin Lehrer|ja oder nein",
    "fr": "peut-être|je ne sais pas|aucune idée|oui et non|ça dépend|parfois|oui ?|bof|c'est la fin|oui non",
    "es": "no sé|no se|quizás|tal vez|depende|a veces|sí y no|¿sí?|si tengo tiempo|si no puedo|más o menos|y",
    "it": "forse|non so|non lo so|boh|dipende|sì e no|a volte|si dorme male|fine settimana|sì?|non ne ho idea",
    "pt": "talvez|não sei|nao sei|depende|às vezes|sim e não|no trabalho|e|sim?|mais ou menos|nem sempre|pois não",
    "nl": "misschien|ik weet het niet|geen idee|ja en nee|soms|ja?|hangt ervan af|nou ja|maakt niet uit",
    "ja": "ja|はい|好き|会社員です|不安です",
    "pl": "no|no tak|tak",
}


@pytest.mark.parametrize(("said", "replies"), [(True, YES), (False, NO), (None, NEITHER)])
def test_yes_and_no_are_read_in_the_locale_s_words(said, replies) -> None:
    wanted = {(code, reply): said for code, each in replies.items() for reply in each.split("|")}
    assert {key: parse_boolean(key[1], key[0]) for key in wanted} == wanted


TAKEN_BACK = {
    "en": "ok, no|Okay. No.|right, no thanks|yes, sorry, no",
    "de": "ok, nein|gut, nein|klar, nein danke|ja, äh, nein",
    "fr": "d'accord, non|bien, non merci|je crois, non",
    "es": "bueno, no|bueno... no, gracias|vale, no",
    "it": "va bene, no|certo, no grazie",
    "pt": "ok, não|claro, não obrigado",
    "nl": "oké, nee|goed, nee dank je",
    "zh": "好吧，不|好，不要|可以，不同意",
}


@pytest.mark.parametrize("locale", TAKEN_BACK)
def test_a_yes_that_a_no_follows_is_open(locale) -> None:
    replies = TAKEN_BACK[locale].split("|")
    assert {reply: parse_boolean(reply, locale) for reply in replies} == dict.fromkeys(replies)


def test_a_no_that_agrees_takes_nothing_back() -> None:
    assert parse_boolean("sure, no problem", "en") is parse_boolean("ja, kein Problem", "de") is True


def test_regret_does_not_hide_the_answer() -> None:
    said = {"de": "leider ja", "fr": "malheureusement oui", "es": "por desgracia sí", "it": "purtroppo sì"}
    assert [parse_boolean(reply, locale) for locale, reply in said.items()] == [True] * 4
    assert parse_boolean("leider nein", "de") is False


@pytest.mark.parametrize("code", BY_WORDS)
def test_each_word_of_a_language_says_what_its_table_says(code) -> None:
    words = LANGUAGES[code].yes_no
    assert words is not None
    says = dict.fromkeys((*words.yes, *words.agrees), True) | dict.fromkeys((*words.no, *words.no_alone), False)
    says |= dict.fromkeys(words.unsure)
    assert {word: parse_boolean(word, code) for word in says} == says
    assert {word: parse_boolean(word.upper() + "!", code) for word in says} == says


@given(st.sampled_from(BY_WORDS), st.data())
def test_an_agreement_with_a_negation_is_never_a_yes(code, data) -> None:
    words = LANGUAGES[code].yes_no
    assert words is not None
    negation = data.draw(st.sampled_from(words.no))
    reply = " ".join([data.draw(st.sampled_from(words.yes)), *data.draw(st.permutations([negation, "xyz"]))])
    assert parse_boolean(reply, code) is not True


NUMBERS = {
    "de": {
        "sieben": 7, "Ich bin achtundzwanzig Jahre alt": 28, "ich bin 28": 28, "27,5": 27.5, "1.234,5": 1234.5,
        "1.234": 1234, "1,234.5": 1234.5, "27.5": 27.5, "eine": 1, "ein Kind": 1, "ein paar": None, "fuenf": 5,
        "ich habe eine Frage": None, "fünf oder sechs": None, "zweieinhalb": 2.5, "anderthalb": 1.5,
        "zwei und eine halbe": 2.5, "ein Dutzend": None, "minus drei": -3, "die erste": None, "nicht 5": None,
        "3 Millionen": 3_000_000, "2,5 Mio": 2_500_000, "seven": 7, "twenty-eight": 28, "halb zehn": None,
        "10:30": None, "Vitamin B12": None, "5 bis 6": None, "28.": 28, "3,5 und 4": None, "二十八": 28,
        "drei Komma fünf": 3.5, "50 %": 50, "Das ist der zweite": None, "1.234.567,89": 1234567.89,
    },
    "fr": {
        "quatre-vingt-dix": 90, "quatre vingt dix": 90, "vingt et un": 21, "J'ai 28 ans": 28, "1 234,5": 1234.5,
        "1\u202f234,5": 1234.5, "un enfant": 1, "un peu": None, "deux ans et demi": 2.5, "un an et demi": 1.5,
        "une dizaine": None, "il fait moins 5": -5, "au moins cinq": 5, "cinq ou six": None, "la première": None,
        "le 3e": None, "pas 5": None, "j'en ai un": 1, "2 millions": 2_000_000, "trois quarts": None, "10h30": None,
    },
    "es": {
        "veintisiete": 27, "veintidos": 22, "treinta y un años": 31, "tengo 28 años": 28, "uno": 1, "un poco": None,
        "una docena": None, "menos dos": -2, "al menos dos": 2, "tres años y medio": 3.5, "el segundo": None,
        "ten": None, "once": 11, "tengo dos o tres": None, "no 5": None, "3º": None,
    },
    "it": {
        "ventisette": 27, "ho sei anni": 6, "tu sei": None, "un po'": None, "due e mezzo": 2.5, "la prima": None,
        "ho 28 anni": 28, "meno tre": -3, "due o tre": None, "un paio": None, "1.234,5": 1234.5,
    },
    "pt": {
        "vinte e sete": 27, "trinta e um": 31, "tenho 28 anos": 28, "uma": 1, "um pouco": None, "dois e meio": 2.5,
        "pelo menos dois": 2, "uma dúzia": None, "primeiro": None, "três": 3, "tres": 3, "nao 5": None,
    },
    "nl": {
        "zevenentwintig": 27, "tweeentwintig": 22, "ik ben 28": 28, "één": 1, "een kind": 1, "een paar": None,
        "anderhalf": 1.5, "tweeënhalf": 2.5, "twee en een half": 2.5, "min drie": -3, "eerste": None, "ten": None,
    },
    "en": {"1.234": 1.234, "1,234.5": 1234.5, "3,5": None},
    "es-MX": {"1,234.5": 1234.5, "1.5": 1.5},
    "de-CH": {"1’234.5": 1234.5, "1'234": 1234},
    "hi": {"1,23,456": 123456, "१२३": 123},
    "ar": {"١٢٣": 123, "٣٫٥": 3.5},
    "sv": {"1 234,5": 1234.5, "7": 7, "seven": 7},
    "ja": {"二十八歳": 28, "２８歳": 28},
    "tlh": {"1,234.5": 1234.5},
}  # fmt: skip

ONE_OR_TWO = {
    "de": "ein oder zwei|eine bis zwei Stunden|zwischen ein und zwei",
    "es": "uno o dos|una o dos veces|entre uno y dos",
    "fr": "un ou deux|un à deux|entre un et deux",
    "it": "uno o due|una o due volte|tra uno e due",
    "pt": "um ou dois|uma ou duas|entre um e dois",
    "nl": "een of twee|een tot twee|tussen een en twee",
}


@pytest.mark.parametrize("locale", ONE_OR_TWO)
def test_one_or_two_is_not_two(locale) -> None:
    assert [parse_number(reply, locale) for reply in ONE_OR_TWO[locale].split("|")] == [None] * 3


def test_a_scale_may_touch_its_digits() -> None:
    written = {"de": "5Mio", "it": "10mila", "fr": "10mille", "es": "5mil", "nl": "2duizend"}
    read = {locale: parse_number(reply, locale) for locale, reply in written.items()}
    assert read == {"de": 5_000_000, "it": 10_000, "fr": 10_000, "es": 5_000, "nl": 2_000}
    assert parse_number("2 Tsd.", "de") == 2_000


@pytest.mark.parametrize("locale", NUMBERS)
def test_numbers_are_read_as_the_locale_writes_them(locale) -> None:
    assert {reply: parse_number(reply, locale) for reply in NUMBERS[locale]} == NUMBERS[locale]  # type: ignore[attr-defined]


@given(st.sampled_from(sorted(SPELLED)), st.integers(0, 999_999))
def test_a_number_written_out_is_the_same_number(code, number) -> None:
    assert parse_number(SPELLED[code](number), code) == number
    assert parse_number(strip_accents(SPELLED[code](number)).capitalize(), code) == number


_LOCALES = "ar cs da de de-AT de-CH el en en-GB en-IN es es-MX fi fr fr-CA he hi hu id it it-CH ja ko nb nl pl pt pt-PT"
_MORE_LOCALES = "ro ru sv sw tr uk vi zh zh-Hant"


@given(
    st.sampled_from([*_LOCALES.split(), *_MORE_LOCALES.split()]),
    st.integers(-999_999_999, 999_999_999) | st.decimals(-99_999, 99_999, places=2, allow_nan=False),
)
def test_a_number_as_a_locale_formats_it_is_the_same_number(locale, number) -> None:
    written = format_decimal(number, locale=locale.replace("-", "_"))
    assert parse_number(written, locale) == float(number)


DAYS = {
    "de": {
        "3. Mai 1990": "1990-05-03", "am 3.5.1990": "1990-05-03", "3/5/1990": "1990-05-03", "3. 5. 1990": "1990-05-03",
        "3. Maerz 2020": "2020-03-03", "gestern": "2026-03-03", "heute Morgen": "2026-03-04", "morgen": "2026-03-05",
        "übermorgen": "2026-03-06", "uebermorgen": "2026-03-06", "vor 3 Tagen": "2026-03-01",
        "vor zwei Wochen": "2026-02-18", "vor einer Woche": "2026-02-25", "in 3 Tagen": "2026-03-07",
        "nächsten Freitag": "2026-03-06", "letzten Mittwoch": "2026-02-25", "3 May 1990": "1990-05-03",
        "yesterday": "2026-03-03", "Mai 1990": None, "3. Mai": None, "nicht heute": None, "Freitag": None,
        "30. Februar 2020": None, "gestern oder heute": None, "der erste Mai 1990": "1990-05-01", "guten Morgen": None,
        "昨天": "2026-03-03", "morgen oder am Freitag": None, "morgen oder so": "2026-03-05",
    },
    "fr": {
        "le 3 mai 1990": "1990-05-03", "1er mai 1990": "1990-05-01", "premier mai 1990": "1990-05-01",
        "hier": "2026-03-03", "avant-hier": "2026-03-02", "aujourd’hui": "2026-03-04", "après-demain": "2026-03-06",
        "il y a deux semaines": "2026-02-18", "dans 3 jours": "2026-03-07", "vendredi prochain": "2026-03-06",
        "5 aout 2020": "2020-08-05", "3 févr. 2020": "2020-02-03", "pas hier": None,
    },
    "es": {
        "3 de mayo de 1990": "1990-05-03", "el 3 de mayo del 1990": "1990-05-03", "ayer": "2026-03-03",
        "mañana": "2026-03-05", "pasado mañana": "2026-03-06", "esta mañana": "2026-03-04", "por la mañana": None,
        "hace dos semanas": "2026-02-18", "el viernes que viene": "2026-03-06", "el miércoles pasado": "2026-02-25",
        "mañana o el viernes": None,
    },
    "it": {
        "il 1º maggio 1990": "1990-05-01", "ieri": "2026-03-03", "l'altro ieri": "2026-03-02",
        "una settimana fa": "2026-02-25", "tra 3 giorni": "2026-03-07", "venerdì prossimo": "2026-03-06",
    },
    "pt": {
        "1º de maio de 1990": "1990-05-01", "ontem": "2026-03-03", "amanha": "2026-03-05", "há 3 dias": "2026-03-01",
        "há 3 dias atrás": "2026-03-01", "próxima sexta": "2026-03-06", "quarta-feira passada": "2026-02-25",
    },
    "nl": {
        "3 mei 1990": "1990-05-03", "3-5-1990": "1990-05-03", "gisteren": "2026-03-03",
        "een week geleden": "2026-02-25", "volgende vrijdag": "2026-03-06",
    },
    "ru": {"3 мая 1990": "1990-05-03", "вчера": "2026-03-03", "2 недели назад": "2026-02-18", "2 месяца назад": None},
    "sv": {"3 maj 1990": "1990-05-03", "igår": "2026-03-03", "torsdag": None, "förra året": None},
    "ja": {"1990年5月3日": "1990-05-03", "昨日": "2026-03-03", "一昨日": "2026-03-02"},
    "ko": {"1990년 5월 3일": "1990-05-03", "1990. 5. 3.": "1990-05-03", "어제": "2026-03-03"},
    "tlh": {"1990-05-03": "1990-05-03", "yesterday": "2026-03-03", "wa'Hu'": None},
}  # fmt: skip


@pytest.mark.parametrize("locale", DAYS)
def test_days_are_read_in_the_locale_s_words(locale) -> None:
    assert {reply: parse_date(reply, TODAY, locale) for reply in DAYS[locale]} == DAYS[locale]  # type: ignore[attr-defined]


@given(
    st.sampled_from([*_LOCALES.split(), *_MORE_LOCALES.split()]),
    st.dates(date(1900, 1, 1), date(2099, 12, 31)),
    st.sampled_from(["long", "full", "medium"]),
)
def test_a_date_as_a_locale_formats_it_is_the_same_day(locale, day, width) -> None:
    assert parse_date(format_date(day, width, locale=locale.replace("-", "_")), TODAY, locale) == day.isoformat()


@given(st.sampled_from(BY_WORDS), st.integers(2, 300), st.data())
def test_days_and_weeks_are_counted_from_today(code, count, data) -> None:
    words = LANGUAGES[code].dates
    assert words is not None
    way, pattern = data.draw(st.sampled_from([(-1, each) for each in words.ago] + [(1, each) for each in words.ahead]))
    unit, days = data.draw(
        st.sampled_from([(each, 1) for each in words.day_units] + [(each, 7) for each in words.week_units])
    )
    reply = pattern.format(f"{count} {unit}")
    assert parse_date(reply, TODAY, code) == (TODAY + timedelta(days=way * count * days)).isoformat()


@pytest.mark.parametrize("code", sorted(LANGUAGES))
def test_the_words_for_days_name_the_days_they_stand_for(code) -> None:
    words = LANGUAGES[code].dates
    for phrase_, shift in words.days.items() if words is not None else ():
        wanted = None if shift is None else (TODAY + timedelta(days=shift)).isoformat()
        assert parse_date(phrase_.capitalize(), TODAY, code) == wanted, phrase_


DRINKS = [Choice("a", "Grüner Tee"), Choice("b", "Café crème"), Choice("c", "Chocolate")]
PICKS = {
    "de": {
        "die erste": "a", "das zweite, bitte": "b", "ich nehme die dritte Option": "c", "die letzte": "c", "zwei": "b",
        "gruner tee": "a", "nicht die erste": None, "nicht die erste, sondern die zweite": "b", "3.": "c",
        "Antwort c bitte": "c", "the second one": "b", "das erste Mal": None, "kein cafe": None, "fünfte": None,
    },
    "fr": {
        "le premier": "a", "la deuxième option": "b", "cafe creme": "b", "je prends le café crème": "b", "deux": "b",
        "pas le café": None, "le 2e": "b", "l'option 2": "b", "le dernier": "c", "sans chocolate": None,
    },
    "es": {"la segunda": "b", "la primera opción": "a", "el último": "c", "dos": "b", "no la primera": None},
    "it": {"il secondo": "b", "la terza, grazie": "c", "due": "b", "non la prima": None},
    "pt": {"o primeiro": "a", "a última": "c", "três": "c", "não a segunda": None},
    "nl": {"de tweede": "b", "de laatste optie": "c", "drie": "c", "niet de eerste": None},
    "ru": {"2": "b"},
}  # fmt: skip


@pytest.mark.parametrize("locale", PICKS)
def test_choices_are_picked_in_the_locale_s_words(locale) -> None:
    assert {reply: match_choice(reply, DRINKS, locale) for reply in PICKS[locale]} == PICKS[locale]  # type: ignore[attr-defined]


def test_choices_that_differ_by_an_accent_only_stay_two() -> None:
    fish = ["pêche", "péché"]
    assert match_choice("pêche", fish, "fr") == "pêche"
    assert match_choice("peche", fish, "fr") is None
    assert match_choice("ärger", ["Verärgerung", "Freude"], "de") is None


@pytest.mark.parametrize(
    ("locale", "reply", "items"),
    [
        ("de", "Äpfel, Birnen und Pflaumen", ["Äpfel", "Birnen", "Pflaumen"]),
        ("de", "3,5, 4 und 5", ["3,5", "4", "5"]),
        ("fr", "du pain, du beurre et du lait", ["du pain", "du beurre", "du lait"]),
        ("es", "pan, leche y huevos", ["pan", "leche", "huevos"]),
        ("it", "pane e burro", ["pane", "burro"]),
        ("pt", "pão e leite", ["pão", "leite"]),
        ("nl", "brood en kaas", ["brood", "kaas"]),
        ("de", "nichts", []),
        ("fr", "Rien.", []),
        ("nl", "nothing", []),
        ("pt", "nada", []),
    ],
)
def test_lists_are_joined_by_the_locale_s_words(locale, reply, items) -> None:
    assert parse_list(reply, locale) == items


def test_labels_stand_among_the_locale_s_words() -> None:
    in_german = labelled_parts("Mein Alter ist 25 und mein Beruf: Lehrer", ["alter", "beruf"], "de")
    assert in_german == {"alter": "25", "beruf": "Lehrer"}
    in_french = labelled_parts("mon age est 25, l'emploi: prof", ["âge", "emploi"], "fr")
    assert in_french == {"âge": "25", "emploi": "prof"}


def test_words_with_accents_count_as_whole_words() -> None:
    assert find_mentioned("Das ist für mich", ["für"]) == "für"
    assert find_mentioned("Prüfung", ["prüf", "fung"]) == ""
    assert find_mentioned("niñez", ["ni"]) == ""
    assert find_mentioned("我要 stop 了", ["stop", "要"]) == "stop"


# -- whole sessions ---------------------------------------------------------------------------------------------------

SCRIPT = """
    script: t
    locale: {locale}
    repairs: [skip, repeat, correct]
    phases: [{{phase: p, topics: [{{topic: t, actions: [
      {{ask: A?, id: a, output: [{{get: agrees, type: boolean}}]}},
      {{ask: B?, id: b, output: [{{get: age, type: number}}]}},
      {{ask: C?, id: c, output: [{{get: born, type: date}}]}},
      {{choose: drink, id: d, question: D?, choices: [{{key: tea, text: Tee}}, {{key: milk, text: Milch}}]}},
      {{ask: E?, id: e, output: [{{get: rest}}]}}]}}]}}]
"""


@pytest.mark.parametrize(
    ("locale", "replies", "skip", "correction"),
    [
        ("de", ["nein", "siebenundzwanzig", "3. Mai 1990", "das zweite"], "weiter", "ich meinte age auf 28"),
        ("fr", ["non", "vingt-sept", "le 3 mai 1990", "le deuxième"], "je passe", "je voulais dire age est 28"),
        ("es", ["no", "veintisiete", "3 de mayo de 1990", "la segunda"], "siguiente", "quise decir age a 28"),
        ("it", ["no", "ventisette", "3 maggio 1990", "il secondo"], "avanti", "volevo dire age a 28"),
        (
            "pt-BR",
            ["não", "vinte e sete", "3 de maio de 1990", "a segunda"],
            "proxima pergunta",
            "eu quis dizer age: 28",
        ),
        ("nl", ["nee", "zevenentwintig", "3 mei 1990", "de tweede"], "overslaan", "ik bedoelde age naar 28"),
    ],
)
async def test_a_session_is_answered_in_its_language(drive: StartSession, locale, replies, skip, correction) -> None:
    session = await drive(SCRIPT.format(locale=locale))
    await session.reply(*replies)
    values = session.values
    assert (values["agrees"], values["age"], values["born"], values["drink"]) == (False, 27, "1990-05-03", "milk")
    await session.reply(correction)
    assert session.values["age"] == 28
    await session.reply(skip)
    assert session.state.status == "completed"


async def test_a_complaint_is_in_the_language_of_the_session(drive: StartSession) -> None:
    session = await drive(SCRIPT.format(locale="de"))
    await session.reply("vielleicht")
    assert session.said[-1] == "Meinten Sie ja oder nein?"


# -- the data ---------------------------------------------------------------------------------------------------------


def test_check_knows_the_languages_the_runtime_reads() -> None:
    assert frozenset(LANGUAGES) == ANSWERED_IN


@pytest.mark.parametrize("code", sorted(LANGUAGES))
def test_a_language_has_every_sentence_and_repair(code) -> None:
    known = LANGUAGES[code]
    assert known.code == code
    assert set(known.phrases) == set(get_args(Phrase))
    for name, sentence in known.phrases.items():
        assert ("{choices}" in sentence) == ("{choices}" in LANGUAGES["en"].phrases[name]), name
        assert sentence == sentence.strip()
        assert phrase(code, name, ("x",), own={}).count("x") >= ("{choices}" in sentence)
    assert set(known.repairs) == set(get_args(RepairKind))
    assert all(known.repairs.values())
    assert known.farewells


@pytest.mark.parametrize("code", BY_WORDS)
def test_no_word_asks_for_two_repairs(code) -> None:
    words = [strip_accents(word) for words in LANGUAGES[code].repairs.values() for word in set(words)]
    assert len(words) == len(set(words))


# -- bounds -----------------------------------------------------------------------------------------------------------

_PIECES = "ja |nein |ja, |nicht |ein |zwei und |3. Mai |vor 3 |1.|1 |1.234,|in |und |vor |übermorgen |die erste |~ |ü"


@pytest.mark.gate
@pytest.mark.parametrize("code", [*BY_WORDS, "sv", "ja"])
@pytest.mark.parametrize("piece", _PIECES.split("|"))
def test_hostile_repetition_is_read_quickly_in_any_language(code, piece) -> None:
    parse_answer("3. Mai 1990", "date", choices=[], today=TODAY, locale=code)  # what is loaded once is not measured
    reply = (piece * 2_000)[:2_000] + " 1990"
    started = time.process_time()
    for declared in ("number", "boolean", "date", "choice", "list"):
        parse_answer(reply, declared, choices=DRINKS, today=TODAY, locale=code)
    labelled_parts(reply, ["age"], code)
    assert time.process_time() - started < 5


@given(st.text(max_size=60), st.sampled_from([*BY_WORDS, "en", "zh", "ja", "ar", "xx", "pt-XX"]))
def test_no_text_makes_a_reader_raise_in_any_language(reply, locale) -> None:
    for declared in (None, "text", "number", "boolean", "date", "choice", "list", "record"):
        parse_answer(reply, declared, choices=DRINKS, today=TODAY, locale=locale)
