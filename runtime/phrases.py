"""The few sentences the runtime says by itself when a script gives none, by language."""

from collections.abc import Mapping

from scripts.model import Locale
from scripts.strings import Phrase, language

_PHRASES: dict[str, dict[Phrase, str]] = {
    "en": {
        "invalid": "Sorry, that does not fit. Could you answer again?",
        "text": "Sorry, I did not get that. Could you say it again?",
        "number": "Sorry, I need a number here.",
        "boolean": "Sorry, was that a yes or a no?",
        "date": "Sorry, I need a date here, such as 2026-01-31.",
        "choice": "Sorry, please choose one of these: {choices}.",
        "list": "Sorry, please list them, separated by commas.",
        "record": "Sorry, I could not read that.",
        "noted": "Thank you for telling me. Is there anything else?",
        "needed": "I do need an answer to this one.",
        "cancelled": "All right, let us leave that.",
        "corrected": "Noted: {choices}.",
        "which": "What shall I change? Say it like “age: 30”.",
        "handed_over": "I have let someone know; they will get back to you.",
        "required": "This is needed.",
        "missing": "Still needed: {choices}.",
        "unread": "I could not read that. Say it like this: {choices}",
        "multichoice": "Sorry, please choose any of these: {choices}.",
        "table": "Sorry, I could not read these rows.",
        "busy": "I cannot go on just now. Please try again later.",
    },
    "zh": {
        "invalid": "抱歉，这个回答不符合要求，可以再说一次吗？",
        "text": "抱歉，我没有听清，可以再说一次吗？",
        "number": "抱歉，这里需要一个数字。",
        "boolean": "抱歉，您的意思是“是”还是“不是”？",
        "date": "抱歉，这里需要一个日期，例如 2026-01-31。",
        "choice": "抱歉，请从以下选项中选择：{choices}。",
        "list": "抱歉，请逐一列出，用逗号分开。",
        "record": "抱歉，我没能读懂。",
        "noted": "谢谢您告诉我。还有什么想说的吗？",
        "needed": "这个问题需要您的回答。",
        "cancelled": "好的，这个我们先不谈了。",
        "corrected": "已更正：{choices}。",
        "which": "您想更正哪一项？可以这样说：“年龄：30”。",
        "handed_over": "我已经通知了工作人员，他们会联系您。",
        "required": "这一项必填。",
        "missing": "还需要：{choices}。",
        "unread": "抱歉，我没能读懂。可以这样说：{choices}",
        "multichoice": "抱歉，请从以下选项中选择一项或多项：{choices}。",
        "table": "抱歉，我没能读懂这些行。",
        "busy": "现在暂时无法继续，请稍后再试。",
    },
}
OTHERWISE = "en"  # for the languages that have no sentences here


def phrase(locale: Locale, name: Phrase, choices: tuple[str, ...] = (), *, own: Mapping[str, str]) -> str:
    """A sentence in a language, `own` ones first; `choices` fills the list of what may be chosen."""
    separator = "、" if language(locale) in {"zh", "ja"} else ", "
    sentence = own.get(name) or _PHRASES.get(language(locale), _PHRASES[OTHERWISE])[name]
    return sentence.replace("{choices}", separator.join(choices))


_FAREWELLS: dict[str, tuple[str, ...]] = {
    "en": ("bye", "goodbye", "that's all", "that is all", "i'm done", "no more", "nothing else", "see you"),
    "zh": ("再见", "拜拜", "没有了", "就这些", "结束吧", "不聊了", "先这样"),
}


def farewells(locale: Locale) -> tuple[str, ...]:
    """Words by which people end a free conversation."""
    return _FAREWELLS.get(language(locale), _FAREWELLS[OTHERWISE])
