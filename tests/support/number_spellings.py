"""Whole numbers written out in seven languages, up to a million: what the readers of answers are tried with."""

from collections.abc import Callable, Mapping

_EN = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_EN_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def english(number: int) -> str:
    if number >= 1_000:
        return _joined(english(number // 1_000) + " thousand", english(number % 1_000), number % 1_000)
    if number >= 100:
        return _joined(_EN[number // 100] + " hundred", english(number % 100), number % 100)
    if number >= 20:
        tens, ones = _EN_TENS[number // 10 - 2], number % 10
        return f"{tens}-{_EN[ones]}" if ones else tens
    return _EN[number]


_DE = [
    "null",
    "eins",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "elf",
    "zwölf",
    "dreizehn",
    "vierzehn",
    "fünfzehn",
    "sechzehn",
    "siebzehn",
    "achtzehn",
    "neunzehn",
]
_DE_TENS = ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]


def german(number: int) -> str:
    if number >= 1_000:
        head = german(number // 1_000).removesuffix("s") if number // 1_000 % 100 == 1 else german(number // 1_000)
        return head + "tausend" + (german(number % 1_000) if number % 1_000 else "")
    if number >= 100:
        head = "ein" if number // 100 == 1 else _DE[number // 100]
        return head + "hundert" + (german(number % 100) if number % 100 else "")
    if number >= 20:
        tens, ones = _DE_TENS[number // 10 - 2], number % 10
        return f"{'ein' if ones == 1 else _DE[ones]}und{tens}" if ones else tens
    return _DE[number]


_NL = [
    "nul",
    "een",
    "twee",
    "drie",
    "vier",
    "vijf",
    "zes",
    "zeven",
    "acht",
    "negen",
    "tien",
    "elf",
    "twaalf",
    "dertien",
    "veertien",
    "vijftien",
    "zestien",
    "zeventien",
    "achttien",
    "negentien",
]
_NL_TENS = ["twintig", "dertig", "veertig", "vijftig", "zestig", "zeventig", "tachtig", "negentig"]


def dutch(number: int) -> str:
    if number >= 1_000:
        head = "" if number // 1_000 == 1 else dutch(number // 1_000)
        return _joined(head + "duizend", dutch(number % 1_000), number % 1_000)
    if number >= 100:
        head = "" if number // 100 == 1 else _NL[number // 100]
        return head + "honderd" + (dutch(number % 100) if number % 100 else "")
    if number >= 20:
        tens, ones = _NL_TENS[number // 10 - 2], number % 10
        return f"{_NL[ones]}{'ën' if ones in (2, 3) else 'en'}{tens}" if ones else tens
    return _NL[number]


_FR = [
    "zéro",
    "un",
    "deux",
    "trois",
    "quatre",
    "cinq",
    "six",
    "sept",
    "huit",
    "neuf",
    "dix",
    "onze",
    "douze",
    "treize",
    "quatorze",
    "quinze",
    "seize",
    "dix-sept",
    "dix-huit",
    "dix-neuf",
]
_FR_TENS = {2: "vingt", 3: "trente", 4: "quarante", 5: "cinquante", 6: "soixante"}


def french(number: int) -> str:
    if number >= 1_000:
        head = french(number // 1_000)
        head = head.removesuffix("s") if head.endswith(("cents", "vingts")) else head
        head = "mille" if number // 1_000 == 1 else f"{head} mille"
        return _joined(head, french(number % 1_000), number % 1_000)
    if number >= 100:
        head = "cent" if number // 100 == 1 else f"{_FR[number // 100]} cent{'' if number % 100 else 's'}"
        return _joined(head, french(number % 100), number % 100)
    if number >= 80:
        return "quatre-vingts" if number == 80 else f"quatre-vingt-{_FR[number - 80]}"
    if number >= 60:
        rest = _FR[number - 60]
        return "soixante" if number == 60 else f"soixante{' et ' if number in (61, 71) else '-'}{rest}"
    if number >= 20:
        tens, ones = _FR_TENS[number // 10], number % 10
        return tens if not ones else f"{tens} et un" if ones == 1 else f"{tens}-{_FR[ones]}"
    return _FR[number]


_ES = [
    "cero",
    "uno",
    "dos",
    "tres",
    "cuatro",
    "cinco",
    "seis",
    "siete",
    "ocho",
    "nueve",
    "diez",
    "once",
    "doce",
    "trece",
    "catorce",
    "quince",
    "dieciséis",
    "diecisiete",
    "dieciocho",
    "diecinueve",
    "veinte",
    "veintiuno",
    "veintidós",
    "veintitrés",
    "veinticuatro",
    "veinticinco",
    "veintiséis",
    "veintisiete",
    "veintiocho",
    "veintinueve",
]
_ES_TENS = ["treinta", "cuarenta", "cincuenta", "sesenta", "setenta", "ochenta", "noventa"]
_ES_HUNDREDS = [
    "ciento",
    "doscientos",
    "trescientos",
    "cuatrocientos",
    "quinientos",
    "seiscientos",
    "setecientos",
    "ochocientos",
    "novecientos",
]


def spanish(number: int) -> str:
    if number >= 1_000:
        thousands = number // 1_000
        head = "" if thousands == 1 else spanish(thousands)
        head = head.removesuffix("veintiuno") + "veintiún" if head.endswith("veintiuno") else head
        head = head.removesuffix("o") if head.endswith(" uno") else head
        return _joined(f"{head} mil".strip(), spanish(number % 1_000), number % 1_000)
    if number >= 100:
        head = "cien" if number == 100 else _ES_HUNDREDS[number // 100 - 1]
        return _joined(head, spanish(number % 100), number % 100)
    if number >= 30:
        tens, ones = _ES_TENS[number // 10 - 3], number % 10
        return f"{tens} y {_ES[ones]}" if ones else tens
    return _ES[number]


_IT = [
    "zero",
    "uno",
    "due",
    "tre",
    "quattro",
    "cinque",
    "sei",
    "sette",
    "otto",
    "nove",
    "dieci",
    "undici",
    "dodici",
    "tredici",
    "quattordici",
    "quindici",
    "sedici",
    "diciassette",
    "diciotto",
    "diciannove",
]
_IT_TENS = ["venti", "trenta", "quaranta", "cinquanta", "sessanta", "settanta", "ottanta", "novanta"]


def italian(number: int) -> str:
    if number >= 1_000:
        head = "mille" if number // 1_000 == 1 else italian(number // 1_000).replace("tré", "tre") + "mila"
        return head + (italian(number % 1_000) if number % 1_000 else "")
    if number >= 100:
        head = "" if number // 100 == 1 else _IT[number // 100]
        return head + "cento" + (italian(number % 100) if number % 100 else "")
    if number >= 20:
        tens, ones = _IT_TENS[number // 10 - 2], number % 10
        tens = tens[:-1] if ones in (1, 8) else tens
        return tens + ("tré" if ones == 3 else _IT[ones] if ones else "")
    return _IT[number]


_PT = [
    "zero",
    "um",
    "dois",
    "três",
    "quatro",
    "cinco",
    "seis",
    "sete",
    "oito",
    "nove",
    "dez",
    "onze",
    "doze",
    "treze",
    "catorze",
    "quinze",
    "dezesseis",
    "dezessete",
    "dezoito",
    "dezenove",
]
_PT_TENS = ["vinte", "trinta", "quarenta", "cinquenta", "sessenta", "setenta", "oitenta", "noventa"]
_PT_HUNDREDS = [
    "cento",
    "duzentos",
    "trezentos",
    "quatrocentos",
    "quinhentos",
    "seiscentos",
    "setecentos",
    "oitocentos",
    "novecentos",
]


def portuguese(number: int) -> str:
    if number >= 1_000:
        head = "mil" if number // 1_000 == 1 else portuguese(number // 1_000) + " mil"
        rest = number % 1_000
        joins = " e " if rest and (rest < 100 or rest % 100 == 0) else " "
        return head + (joins + portuguese(rest) if rest else "")
    if number >= 100:
        head = "cem" if number == 100 else _PT_HUNDREDS[number // 100 - 1]
        return head + (f" e {portuguese(number % 100)}" if number % 100 else "")
    if number >= 20:
        tens, ones = _PT_TENS[number // 10 - 2], number % 10
        return f"{tens} e {_PT[ones]}" if ones else tens
    return _PT[number]


def _joined(head: str, rest: str, number: int) -> str:
    return f"{head} {rest}" if number else head


SPELLED: Mapping[str, Callable[[int], str]] = {
    "de": german,
    "en": english,
    "es": spanish,
    "fr": french,
    "it": italian,
    "nl": dutch,
    "pt": portuguese,
}
