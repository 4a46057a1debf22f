"""Yes or no out of a free reply, in English and Chinese; the first clause that says either decides."""

import re
import unicodedata
from itertools import islice

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


def parse_boolean(text: str) -> bool | None:
    """True, False, or None where the reply leaves it open (``maybe``, ``不知道``, ``yes and no``, a question back)."""
    folded = unicodedata.normalize("NFKC", text[:CHARS_MAX]).strip().casefold().replace("’", "'")
    if _BOTH.search(folded[:40]):
        return None
    hummed = False
    for match in islice(_CLAUSE.finditer(folded), CLAUSES_MAX):
        clause = " ".join(match[0].split())
        if _HAN_HUM.fullmatch(clause):
            hummed = hummed or clause[0] in "嗯恩"
            continue
        said = _clause_says(clause)
        if said is not None or _UNSURE.search(clause):
            return said
    return True if hummed else None


def _clause_says(clause: str) -> bool | None:
    if _YES_IDIOM.search(clause):
        return True
    if _QUESTION.search(clause) or _UNSURE.search(clause):
        return None
    if "不可能" in clause:
        return False
    han = clause[_han_lead_end(clause) :]
    if _HAN_NO.match(han):
        return False
    if _HAN_YES.match(han):
        return True
    return _english_says(clause)


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
