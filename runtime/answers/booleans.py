"""Yes or no out of a free reply; the first clause that says either decides.

The grammars of English and Chinese are here, those of other languages are tables: `runtime.languages`.
"""

import re
import unicodedata
from itertools import islice

from runtime.answers.yes_no_words import Says, clause_says, is_plain_no, says_both
from runtime.languages import LANGUAGES
from scripts.model import Locale
from scripts.strings import language

CHARS_MAX = 2_000
CLAUSES_MAX = 3  # an answer comes first; what follows explains it

_CLAUSE = re.compile(r"[^，,。.!！;；:：\n~～…—]+")
_BOTH = re.compile(
    r"\byes,? (?:and|or) no\b|\byes[ ,/]+no$|\bno,? (?:and|or) yes\b|是,?也不是|有也没有|(.)[不没]\1",
    re.ASCII,
)
_QUESTION = re.compile(r"(?:\?|？|吗|么)\s*$")

_UNSURE = re.compile(
    r"\b(?:maybe|perhaps|possibly|not (?:so |too |really |quite )?(?:sure|certain)|unsure"
    r"|(?:don'?t|do not) (?:really )?(?:know|remember)|dunno|no (?:idea|clue|preference)|depends|hard to say"
    r"|can'?t (?:say|tell)|sometimes|either|wish|could say)\b"
    r"|不太?(?:知道|清楚|确定|好说|一定|记得|懂|明白)|说不[准清好]"
    r"|也许|(?<!不)可能|或许|大概|看情况"
    r"|没想好|无所谓|随便|有时|没事|没关系|对不起",
    re.ASCII,
)
_YES_IDIOM = re.compile(
    r"\b(?:no (?:problem|doubt|worries|objections?)|why not|not (?:bad|a problem)|without a doubt"
    r"|(?:don'?t|do not) mind)\b"
    r"|没(?:有)?(?:问题|错|意见)|不错|不介意|不反对|不成问题|差不多|为什么不|何不|毫无疑问",
    re.ASCII,
)
_NO = re.compile(
    r"\b(?:no|not|nope|nah|never|none|neither|cannot|hardly|nothing|false|wrong|incorrect|disagree|refuse"
    r"|(?:do|does|did|is|are|was|were|have|has|had|ca|wo|would|could|should|ai)n'?t)\b|^n$",
    re.ASCII,
)
_YES = re.compile(
    r"\b(?:yes|yeah|yep|yup|yea|aye|of course|i (?:think|guess|hope|believe) so)\b|^(?:y|true|ok)$", re.ASCII
)
_SOFT_YES = re.compile(
    r"(?:(?:well|oh|it'?s|that'?s|it is|that is|i'?m|i am|i'd say) )?(?:sure|ok|okay|correct|right|true|fine|definitely"
    r"|absolutely|certainly|exactly|totally|indeed|agreed|affirmative|i agree"
    r"|sounds good|go ahead|please do|uh-huh|mhm)\b",
    re.ASCII,
)
_SOFT_YES_WORDS_MAX = 5  # "right" opens an answer, but also "right now my head hurts more than before"
_I_DO = re.compile(r"i (?:do|am|have|did|was|will|can|would|could)(?: indeed| too)?", re.ASCII)

_HAN_LEAD = re.compile(
    r"(?:(?:当然|肯定|确实|的确|绝对|完全|一定|几乎|基本上?|真的|根本|想)(?=[不没])|我们|我|这|那|其实|应该|好像|觉得|认为|感觉|想说|真的(?=[^\s吗])|也|还|就|都|现在|目前|暂时|从来|从|一直|并|倒|嗯|啊|呃|唔|哦|恩|\s){0,6}"
)
_HAN_HUM = re.compile(r"[嗯恩唔哦啊]+|(?:uh|um|mm|hmm|well|oh)+", re.ASCII)
_HAN_NO = re.compile(r"不|没|否|未|无|别|绝不|假的|错(?!过)")
_HAN_YES = re.compile(
    r"是(?![否不没]|因为|什么|谁)|对(?!于|了|面|我|方|他|她|比|待)|有(?!人说|关|什么|多少|几)|好(?!像|久|奇|多|难|累|几|烦|痛|疼|想)|行(?!业|为|李)"
    r"|可以|当然|能(?!力|量)|会(?!计|议)|要(?!是|么)|愿意|同意|想(?!法|起|象)|确实|真的|的确|肯定|必须|一定|经常|常常|总是|完全|正确|确定|赞成|需要"
)

_BY_GRAMMAR = frozenset({"en", "zh"})
_SHORT_ENGLISH = re.compile(
    r"(?:(?:yes|yeah|yep|yup|ok|okay|of course|sure|yes of course|i (?:do|am|think so)|yes i (?:do|am|have)"
    r"|(?P<no>no|nope|never|not really|not at all|i don't(?: think so)?|i am not|no i (?:don't|am not|haven't)))"
    r"(?: please| thanks| thank you)?)"
)
_NO_IS_ANOTHER_WORD = frozenset(
    {"bs", "cs", "et", "fi", "hr", "hu", "lt", "lv", "pl", "ro", "sk", "sl", "sr", "tr", "vi"}  # a Polish "no" is a yes
)
_PLAIN_NO = re.compile(r"(?:no|nope|nah)(?: thanks| thank you)?|不(?:是的?|要|了|行|可以|同意|愿意)?", re.ASCII)
_HAN = re.compile(r"[\u4e00-\u9fff]")
_WORDS = re.compile(r"[^\W\d_]+")


def parse_boolean(text: str, locale: Locale = "en") -> bool | None:
    """True, False, or None where the reply leaves it open (``maybe``, ``不知道``, ``yes and no``, a question back).

    The locale's language is read first, then Chinese and English, but for their words that mean something else in it.
    """
    code = language(locale.replace("_", "-"))
    folded = unicodedata.normalize("NFKC", text[:CHARS_MAX]).strip().casefold().replace("’", "'").lstrip("¿¡\"“„«(' ")
    if _BOTH.search(folded[:40]) or (_has_words(code) and says_both(folded, code)):
        return None
    hummed = False
    clauses = [" ".join(match[0].split()) for match in islice(_CLAUSE.finditer(folded), CLAUSES_MAX)]
    for at, clause in enumerate(clauses):
        if _HAN_HUM.fullmatch(clause) and not (_has_words(code) and clause_says(clause, code)):
            hummed = hummed or clause[0] in "嗯恩"
            continue
        said = _clause_says(clause) if code in _BY_GRAMMAR else _foreign_clause_says(clause, code)
        if said == "yes" and any(_is_plain_no(after, code) for after in clauses[at + 1 :]):
            return None
        if said is not None:
            return said == "yes" if said != "open" else None
    return True if hummed else None


def _is_plain_no(clause: str, code: str) -> bool:
    """Whether a clause is a no and nothing else, so that it takes back a yes before it: ``okay, no``."""
    return _PLAIN_NO.fullmatch(clause) is not None or (_has_words(code) and is_plain_no(clause, code))


def _has_words(code: str) -> bool:
    own = LANGUAGES.get(code)
    return own is not None and own.yes_no is not None


def _foreign_clause_says(clause: str, code: str) -> Says | None:
    """What a clause says in a language other than English and Chinese; the parts in these two count as well."""
    if _HAN.search(clause):
        return None if code == "ja" else _clause_says(clause)  # the same signs are other words in Japanese
    if _QUESTION.search(clause):
        return None
    if not _has_words(code):
        short = _SHORT_ENGLISH.fullmatch(clause)
        is_no = short is not None and short["no"] is not None
        if short is None or (short["no"] == "no" and code in _NO_IS_ANOTHER_WORD):
            return None
        return "no" if is_no else "yes"
    said = clause_says(clause, code)
    if said is not None or not LANGUAGES[code].collides.isdisjoint(_WORDS.findall(clause)):
        return said
    return _clause_says(clause)


def _clause_says(clause: str) -> Says | None:
    """What a clause in English or Chinese says."""
    if _YES_IDIOM.search(clause):
        return "yes"
    if _QUESTION.search(clause) or _UNSURE.search(clause):
        return "open" if _UNSURE.search(clause) else None
    if "不可能" in clause:
        return "no"
    han = clause[_han_lead_end(clause) :]
    if _HAN_NO.match(han):
        return "no"
    if _HAN_YES.match(han):
        return "yes"
    said = _english_says(clause)
    return None if said is None else "yes" if said else "no"


def _han_lead_end(clause: str) -> int:
    lead = _HAN_LEAD.match(clause)
    return lead.end() if lead else 0


def _english_says(clause: str) -> bool | None:
    yes, no = _YES.search(clause), _NO.search(clause)
    if yes and no and not clause.startswith(("of course not", "yeah no", "yes no")):
        return yes.start() < no.start()
    if no:
        return None if clause.startswith("yes no") else False
    if yes or _I_DO.fullmatch(clause):
        return True
    soft = _SOFT_YES.match(clause) is not None and len(clause.split()) <= _SOFT_YES_WORDS_MAX
    return True if soft else None
