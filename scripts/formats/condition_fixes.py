"""The fix for a condition of the older formats that is not supported: the condition as it can be written.

What people write, as in ``{age}在12到18之间``, ``{age} >= 18岁`` and ``['a', 'b'].indexOf({x}) >= 0``, is replaced by
operators step by step; the fix names the result only if it is a valid condition.
"""

import re
from collections.abc import Callable

from scripts.expressions.expressions import compile_expression
from scripts.expressions.sandbox import ExpressionInvalid
from scripts.expressions.values import shorten
from scripts.formats.conditions import QUOTED, plain_signs, to_condition
from scripts.formats.placeholders import reference
from scripts.model.base import Location
from scripts.yaml.decoder import Reader

FIXED_CHARS_MAX = 500  # a longer condition is not one slip
_NAME = (
    r"(?P<name>\$?\{+[^{}]+\}+|(?<![\w.\x00])(?!(?:not|and|or|is|if)\b)[A-Za-z_][A-Za-z0-9_.]*(?![A-Za-z0-9_.])"
    r"|(?<![\w.\x00])[^\W\dA-Za-z]\w*?)"  # 年龄在12到18之间
)
_NUMBER = r"(?:\d{4}-\d\d?-\d\d?|-?\d+(?:\.\d+)?)"
_VALUE = r"(?:-?\d+(?:\.\d+)?|\x00\d+\x00)"
_ITEMS = rf"(?P<items>{_VALUE}(?:\s*,\s*{_VALUE})+)"
_MASK = re.compile(r"\x00(\d+)\x00")
_UNITS = (
    r"(?:周?岁|年级?|个?月|星期|周|天|日|个?小时|分钟?|秒钟?|次|遍|个人?|人|名|位|元|块钱?|公?斤|公里|[厘毫]?米|度|级|题|条|项"
    r"|(?:years?(?: old)?|months?|weeks?|days?|hours?|minutes?|seconds?|times?|points?|people|kg|cm)\b)"
)
_TO = r"(?:到|至|和|与|[-–—~～]|\.\.+|to\b|and\b)"
_WITHIN = r"(?:之?间|[之以]内|的?范围[内里]?|区间[内里]?)"
_RANGE = rf"[\[(]?\s*(?P<least>{_NUMBER})\s*{_TO}\s*(?P<most>{_NUMBER})\s*[\])]?\s*{_WITHIN}?"
_LISTED = rf"[\[(]?\s*(?P<least>{_NUMBER})\s*,\s*(?P<most>{_NUMBER})\s*[\])]?\s*{_WITHIN}"
_INSIDE = r"(\g<name> >= \g<least> && \g<name> <= \g<most>)"
_OUTSIDE = r"(\g<name> < \g<least> || \g<name> > \g<most>)"
_INDEX = r"(?P<list>\[[^\[\]]*\]|\{+[^{}]+\}+)\s*\.\s*indexOf\s*\(\s*(?P<value>[^()]*?)\s*\)\s*"
_MORE = r"(?:is )?(?:greater|more|larger|higher|older|later)"
_LESS = r"(?:is )?(?:less|fewer|smaller|lower|younger|earlier)"
_LIMIT = r"[<>]=?|大于等于|小于等于|大于|小于|高于|低于|不?超过"
_STEPS: tuple[tuple[str, str], ...] = (
    (r"^\s*(?:如果|假如|若是?|当|if\b|when\b)\s*(.+?)\s*(?:的话|的?时候?|则|就|then\b)?\s*:?\s*$", r"\1"),
    (rf"(?P<number>(?:(?<!\w)|(?<=[^\W\dA-Za-z_])){_NUMBER})\s*{_UNITS}", r"\g<number>"),
    (rf"{_NAME}\s*(?:不(?:在|是|为|介于|属于)|(?:is )?not (?:in|between))\s*{_RANGE}", _OUTSIDE),
    (rf"{_NAME}\s*(?:介[于乎]|处于|位于|属于|[在从是为:]|={{1,3}}|(?:is )?(?:in|between|from)\b)\s*{_RANGE}", _INSIDE),
    (rf"{_NAME}\s*不(?:介于|在)\s*{_LISTED}", _OUTSIDE),
    (rf"{_NAME}\s*(?:介[于乎]|[在从])\s*{_LISTED}", _INSIDE),
    (r"(?<=[\d\x00])\s*、\s*(?=[\d\x00])", ", "),
    (rf"{_NAME}\s*不(?:在|属于)\s*{_ITEMS}\s*之?[中内里]面?", r"\g<name> not in [\g<items>]"),
    (rf"{_NAME}\s*(?:在|属于)\s*{_ITEMS}\s*之?[中内里]面?", r"\g<name> in [\g<items>]"),
    (rf"{_NAME}\s*(?:in|属于)\s*(?P<number>{_NUMBER})(?!\s*[\w.])", r"\g<name> == \g<number>"),
    (rf"{_INDEX}(?:>=\s*0|>\s*-\s*1|!==?\s*-\s*1)", r"\g<value> in \g<list>"),
    (rf"{_INDEX}(?:<\s*0|===?\s*-\s*1)", r"\g<value> not in \g<list>"),
    (
        rf"{_NAME}\s*(?P<one>{_LIMIT})\s*(?P<least>{_NUMBER})\s*(?:,|&&|且|并且|而且|and\b)?\s*(?P<two>{_LIMIT})\s*(?P<most>{_NUMBER})",
        r"(\g<name> \g<one> \g<least> && \g<name> \g<two> \g<most>)",
    ),
    (rf"{_NAME}\s*(?:未满|不满|不足|不到|未达到?)\s*(?P<number>{_NUMBER})", r"\g<name> < \g<number>"),
    (rf"{_NAME}\s*(?:达到了?|已?满了?|(?:超过|高于)(?:或者?)?等于)\s*(?P<number>{_NUMBER})", r"\g<name> >= \g<number>"),
    (rf"{_NAME}\s*[在是为]?\s*(?P<number>{_NUMBER})\s*(?:[及或]?以上|or more\b)", r"\g<name> >= \g<number>"),
    (rf"{_NAME}\s*[在是为]?\s*(?P<number>{_NUMBER})\s*(?:[及或]?以[下内]|or less\b)", r"\g<name> <= \g<number>"),
    (rf"{_MORE} than or equal to\b|(?:is )?(?:at least|no less than|not less than)\b", ">="),
    (rf"{_LESS} than or equal to\b|(?:is )?(?:at most|no more than|not more than)\b", "<="),
    (rf"{_MORE} than\b", ">"),
    (rf"{_LESS} than\b", "<"),
    (r"(?:is )?equals? to\b", "=="),
    (rf"{_NAME}\s*(?:没有?值|[没未]有?(?:填写?|回答|设置|提供|说)|不存在)", r"\g<name> == ''"),
    (rf"{_NAME}\s*is not (?:given|answered|filled)\b", r"\g<name> == ''"),
    (rf"{_NAME}\s*(?:有值|已?(?:填写|回答|设置|提供)了?|is (?:answered|filled)\b)", r"\g<name> != ''"),
    (rf"{_NAME}\s*[是为]\s*(?P<word>[是否])(?!\w)", r"\g<name> == '\g<word>'"),
    (rf"{_NAME}\s*(?:[是为]假|不成立)", r"\g<name> == false"),
    (rf"{_NAME}\s*(?:[是为]真|成立)", r"\g<name> == true"),
    (rf"(?:exists|isset|defined|is_?(?:set|defined|not_?empty))\(\s*{_NAME}\s*\)", r"\g<name> exists"),
    (rf"(?:is_?(?:empty|null|blank|unset)|empty)\(\s*{_NAME}\s*\)", r"\g<name> == ''"),
    (rf"{_NAME}\s*(?:starts? with|begins? with)\s*(?P<value>\x00\d+\x00)", r"\g<name>.startsWith(\g<value>)"),
    (rf"{_NAME}\s*以\s*(?P<value>\x00\d+\x00)\s*(?:开头|开始)", r"\g<name>.startsWith(\g<value>)"),
    (rf"{_NAME}\s*(?:ends? with\s*(?P<value>\x00\d+\x00)|以\s*(?P<end>\x00\d+\x00)\s*(?:结尾|结束))",
     r"\g<name>.endsWith(\g<value>\g<end>)"),
    (rf"{_NAME}\s*[中里]面?(?:没有|不含|不包[含括])\s*(?P<value>\x00\d+\x00)", r"\g<value> not in \g<name>"),
    (rf"{_NAME}\s*[中里]面?(?:有|含有?|包[含括]|出现了?)\s*(?P<value>\x00\d+\x00)", r"\g<value> in \g<name>"),
    (rf"(?P<value>\x00\d+\x00)\s*在\s*{_NAME}\s*之?[中里内]面?", r"\g<value> in \g<name>"),
    (r"(?<=[\w\x00}])\s*(?P<word>或者?|且|并且|而且)\s*(?=[\d\x00{(])", r" \g<word> "),
)  # fmt: skip
"""Patterns and what they become, in order; the earlier ones take units and ranges away from the later ones."""

_SIMPLIFIED = str.maketrans("於過屬歲個時鐘間滿為與當", "于过属岁个时钟间满为与当")
_OUTSIDE_BRACES = re.compile(r"(?:^|(?<=\}))[^{}]+")


def condition_fix(written: str) -> str:
    """Return the fix for a condition that is not supported, or an empty text."""
    if len(written) > FIXED_CHARS_MAX:
        return ""
    texts: list[str] = []

    def mask(match: re.Match[str]) -> str:
        texts.append(match[0])
        return f"\x00{len(texts) - 1}\x00"

    whole = QUOTED.fullmatch(written.strip())
    inner = written.strip()[1:-1] if whole is not None else written  # all of it is in quotes
    condition = QUOTED.sub(mask, plain_signs(inner.replace("\x00", ""))).strip()
    condition = _OUTSIDE_BRACES.sub(lambda match: match[0].translate(_SIMPLIFIED), condition)
    for pattern, result in _STEPS:  # compiled at the first fix, because few scripts need one
        condition = re.sub(pattern, result, condition, flags=re.IGNORECASE | re.DOTALL)
    if (only := re.fullmatch(r"\(([^()]*)\)", condition)) is not None:
        condition = only[1]
    condition = _MASK.sub(lambda match: texts[int(match[1])], condition).strip().rstrip(";。,")
    if condition == written.strip() or not _is_valid(condition):
        return ""
    return f"Write `{' '.join(condition.split())}`."


def name_fix(written: str, known: Callable[[str], bool]) -> str:
    """Return the fix for a condition that is read as one name, of no `known` variable: ``年龄在12到18之间``."""
    word = written.strip()
    return condition_fix(word) if re.fullmatch(r"\w+", word) and not known(word) else ""


def report_worded_exit(reader: Reader, written: str, at: Location) -> None:
    """Record that an exit is read as words for a model although it seems to be a condition: ``{score} >= 60分``."""
    fix = condition_fix(written) if "{" in written else ""
    if any(sign in fix for sign in "=<>"):
        message = f"{shorten(written)} is read as words for a model, not as a condition"
        reader.add("VALUE_AMBIGUOUS", message, at, f"{fix.removesuffix('.')} for a condition.")


def _is_valid(condition: str) -> bool:
    try:
        compile_expression(to_condition(condition, reference, lambda word: False))
    except (ValueError, ExpressionInvalid):
        return False
    return True
