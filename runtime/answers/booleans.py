"""Extraction of yes or no from a free reply; the first clause that says either decides.

The grammars of English and Chinese are regular expressions, those of other languages are tables of words:
`runtime.answers.languages`.
"""

import re
import unicodedata
from functools import lru_cache
from itertools import islice
from typing import Literal, TypeAlias

from runtime.answers.languages import LANGUAGES
from runtime.answers.languages.language import Language, YesNo
from runtime.answers.languages.spelling import any_of, fold
from scripts.model.script import Locale
from scripts.translations.localisation import language

# -- languages with tables of words -----------------------------------------------------------------------------------


WORDS_MAX = 8  # in a longer clause a negation may not be the answer: "I have not slept well since ..."
FILLERS_MAX = 6

Says: TypeAlias = Literal["yes", "no", "open"]

_NOT_WORDS = re.compile(r"[^\w\s]+")


class _Words:
    """The patterns of the words for yes and no in a language with tables of words, and what they say."""

    def __init__(self, own: Language, words: YesNo) -> None:
        def of(*phrases: str) -> str:
            return any_of(phrases, digraphs=own.digraphs, accented=words.accented)

        polite = of(*words.yes, *words.agrees, *words.polite)
        plain_yes, plain_no = of(words.yes[0]), of(words.no[0])
        between = r"[\s,/]+(?:\w+ )?"
        self._yes = re.compile(of(*words.yes))
        self._plain_yes = re.compile(any_of(words.yes[:1]))  # the first word for yes, also without its accents
        self._agrees = re.compile(rf"{of(*words.yes, *words.agrees)}(?: {polite})*")
        self._no = re.compile(of(*words.no))
        self._plain_no = re.compile(rf"{plain_no}(?: {of(*words.polite)})*")
        self._no_then_yes = re.compile(rf"{of(*words.no)}(?: \w+)? {plain_yes}")
        self._no_alone = re.compile(rf"{of(*words.no_alone)}(?: {of(*words.polite)})*")
        self._unsure = re.compile(of(*words.unsure))
        self._fillers = re.compile(rf"(?:{of(*words.fillers)} ){{0,{FILLERS_MAX}}}")
        self._both = re.compile(rf"(?:{plain_yes}{between}{plain_no}|{plain_no}{between}{plain_yes})\s*(?:$|[,.!])")
        self.collides = own.collides

    def say_both(self, reply: str) -> bool:
        """Return whether a reply begins with a yes and a no: ``ja, nein``."""
        return self._both.match(fold(reply[:80])) is not None

    def are_plain_no(self, clause: str) -> bool:
        """Return whether a clause is nothing but the word for no, apart from polite words."""
        return self._plain_no.fullmatch(" ".join(_NOT_WORDS.sub(" ", fold(clause)).split())) is not None

    def say(self, clause: str) -> Says | None:
        """Return the meaning of a clause; None if it says neither, and is not open.

        A clause with a negation is never a yes, except for set phrases of agreement (``kein Problem``).
        """
        said = " ".join(_NOT_WORDS.sub(" ", fold(clause)).split())
        if not said:
            return None
        if self._unsure.search(said):
            return "open"
        rest = said[self._fillers.match(said).end() :]  # type: ignore[union-attr]  # matches nothing as well
        if any(self._agrees.fullmatch(each) for each in (said, rest)):
            return "yes"
        if any(self._no_alone.fullmatch(each) for each in (said, rest)):
            return "no"
        if self._no.search(said):
            return self._read_negation(rest)
        return "yes" if self._yes.match(rest) else None

    def _read_negation(self, rest: str) -> Says:
        if self._plain_yes.match(rest) or self._no_then_yes.match(rest):
            return "open"  # "ja nicht"; while "zeker niet" and "claro que no" are a no
        return "no" if self._no.match(rest) or len(rest.split()) <= WORDS_MAX else "open"


@lru_cache(maxsize=len(LANGUAGES))
def _words(code: str) -> _Words | None:
    own = LANGUAGES.get(code)
    return _Words(own, own.yes_no) if own is not None and own.yes_no is not None else None


# -- English and Chinese ----------------------------------------------------------------------------------------------


CHARS_MAX = 2_000
CLAUSES_MAX = 3  # an answer comes first; what follows explains it

_CLAUSE = re.compile(r"[^，,。.!！;；:：\n~～…—]+")
_BOTH = re.compile(
    r"\byes,? (?:and|or) no\b|\byes[ ,/]+no$|\bno,? (?:and|or) yes\b|是,?也不是|有也没有|(.)[不没]\1", re.ASCII
)
_QUESTION = re.compile(r"(?:\?|？|吗|么)\s*$")

_UNSURE = re.compile(
    r"\b(?:maybe|perhaps|possibly|not (?:so |too |really |quite )?(?:sure|certain)|unsure"
    r"|(?:don'?t|do not) (?:really )?(?:know|remember)|dunno|no (?:idea|clue|preference)|depends|hard to say"
    r"|can'?t (?:say|tell|wait)|sometimes|either|wish|could say)\b"
    r"|不太?(?:知道|清楚|确定|好说|一定|记得|懂|明白)|说不[准清好]"
    r"|也许|(?<!不)可能|或许|大概|看情况"
    r"|没想好|无所谓|随便|有时|没事|没关系|对不起",
    re.ASCII,
)
_YES_IDIOM = re.compile(
    r"\b(?:no (?:problem|doubt|worries|objections?)|why not|not (?:bad|a problem)|without a doubt"
    r"|(?:don'?t|do not|wouldn'?t|would not) mind|(?:couldn'?t|could not) agree more)\b"
    r"|没(?:有)?(?:什么|啥)?大?(?:问题|错|意见)|不错|不介意|不反对|不成问题|差不多|为什么不|何不|无疑",
    re.ASCII,
)
_NO = re.compile(  # "not only" and "don't worry" are no answers
    r"\b(?!not only|don'?t worry|no (?:offen[cs]e|kidding))"
    r"(?:no|not|nope|nah|never|none|neither|cannot|hardly|nothing|false|wrong|incorrect|disagree|refuse"
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
    r"(?:(?:当然|肯定|确实|的确|绝对|完全|一定|几乎|基本上?|真的|根本|想)(?=[不没])|我们|我|这|那|其实|应该|好像|觉得|认为|感觉|想说|算(?=是)|真的(?=[^\s吗])|也|还|就|都|现在|目前|暂时|从来|从|一直|并|倒|嗯|啊|呃|唔|哦|恩|\s){0,6}"
)
_HAN_HUM = re.compile(r"[嗯恩唔哦啊]+|(?:uh|um|mm|hmm|well|oh)+", re.ASCII)
_HAN_NO = re.compile(  # 不好意思 is an apology, 不少 and 不止 say much, 不过 and 不管 begin a clause
    r"不(?!好意思|少|止|时|断|久|过|管|论|瞒|仅|但|得不|客气)|没(?!准|想到)|否(?!则)|未(?!必)|无(?!论|时无刻)"
    r"|别(?!提|说)|绝不|假的|错(?!过)"
)
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
    """Return True, False, or None for an open reply (``maybe``, ``不知道``, ``yes and no``, a question).

    The locale's language is read first, then Chinese and English, except their words with another meaning in it.
    """
    code = language(locale)
    words = _words(code)
    folded = unicodedata.normalize("NFKC", text[:CHARS_MAX]).strip().casefold().replace("’", "'").lstrip("¿¡\"“„«(' ")
    if _BOTH.search(folded[:40]) or (words is not None and words.say_both(folded)):
        return None
    hummed = False
    clauses = [" ".join(match[0].split()) for match in islice(_CLAUSE.finditer(folded), CLAUSES_MAX)]
    for at, clause in enumerate(clauses):
        if _HAN_HUM.fullmatch(clause) and not (words is not None and words.say(clause)):
            hummed = hummed or clause[0] in "嗯恩"
            continue
        said = _clause_says(clause) if code in _BY_GRAMMAR else _foreign_clause_says(clause, code, words)
        if said == "yes" and any(_is_plain_no(after, words) for after in clauses[at + 1 :]):
            return None
        if said is not None:
            return said == "yes" if said != "open" else None
    return True if hummed else None


def _is_plain_no(clause: str, words: _Words | None) -> bool:
    """Return whether a clause is nothing but a no, so that it cancels a yes before it: ``okay, no``."""
    return _PLAIN_NO.fullmatch(clause) is not None or (words is not None and words.are_plain_no(clause))


def _foreign_clause_says(clause: str, code: str, words: _Words | None) -> Says | None:
    """Return the meaning of a clause in another language than English and Chinese, whose words are read too."""
    if _HAN.search(clause):
        return None if code == "ja" else _clause_says(clause)  # the same characters are other words in Japanese
    if _QUESTION.search(clause):
        return None
    if words is None:
        short = _SHORT_ENGLISH.fullmatch(clause)
        is_no = short is not None and short["no"] is not None
        if short is None or (short["no"] == "no" and code in _NO_IS_ANOTHER_WORD):
            return None
        return "no" if is_no else "yes"
    said = words.say(clause)
    if said is not None or not words.collides.isdisjoint(_WORDS.findall(clause)):
        return said
    return _clause_says(clause)


def _clause_says(clause: str) -> Says | None:
    """Return the meaning of a clause in English or Chinese."""
    if _YES_IDIOM.search(clause):
        return "yes"
    if _QUESTION.search(clause) or _UNSURE.search(clause):
        return "open" if _UNSURE.search(clause) else None
    if "不可能" in clause:
        return "no"
    lead = _HAN_LEAD.match(clause)
    han = clause[lead.end() if lead else 0 :]
    if _HAN_NO.match(han):
        return "no"
    if _HAN_YES.match(han):
        return "yes"
    return _english_says(clause)


def _english_says(clause: str) -> Says | None:
    yes, no = _YES.search(clause), _NO.search(clause)
    if yes and no and not clause.startswith(("of course not", "yeah no", "yes no")):
        return "yes" if yes.start() < no.start() else "no"
    if no:
        return None if clause.startswith("yes no") else "no"
    if yes or _I_DO.fullmatch(clause):
        return "yes"
    soft = _SOFT_YES.match(clause) is not None and len(clause.split()) <= _SOFT_YES_WORDS_MAX
    return "yes" if soft else None
