"""What an author probably meant."""

import difflib
import re
from collections.abc import Sequence

LISTED_MAX = 20
SURE = 0.8  # of two words: as alike as one with a letter wrong

_WIDE_SIGNS = "＜＞＝“”‘’（），；且或"
_ASSIGNS = re.compile(r"(?<![=!<>])=(?!=)")


_MEANT = {
    "choices": "options option items answers values enum 选项",
    "say": "tell print write speak message msg text output display send reply 说 说话 输出 显示 发送",
    "ask": "question query input prompt inquire 问 提问 询问",
    "ai_say": "ai tell_ai generate ai说 模型说",
    "ai_ask": "ai_question 模型问",
    "choose": "select menu pick option options 选择 选项",
    "show": "image picture pic photo img 图片",
    "set": "assign let variable var 设置 赋值",
    "if": "when condition case 如果",
    "else": "otherwise 否则",
    "goto": "go jump next go_to jump_to move 跳转 转到",
    "end": "stop finish exit quit close 结束",
    "repeat": "loop while until 循环 重复",
    "foreach": "for each for_each 遍历",
    "call": "run use invoke skill 调用",
    "when": "if condition only_if 条件",
    "output": "save store save_as variable var outputs into 保存 输出",
    "max_rounds": "rounds tries attempts retries max_tries max_attempts 轮数",
    "invalid": "error error_message on_error retry_message",
    "question": "text message prompt label ask 问题",
    "locale": "language lang 语言",
    "title": "name heading 标题",
    "get": "name var variable field key",
    "define": "description desc meaning",
    "default": "initial fallback_value",
    "declare": "variables vars define 变量",
    "number": "integer int float decimal numeric digit 数字 整数",
    "text": "string str char varchar 文本 文字",
    "boolean": "bool yes/no yesno yes_no true/false truth flag 布尔",
    "list": "array 列表",
    "record": "object dict map mapping json",
    "choice": "enum select option 选项",
    "date": "datetime day time timestamp 日期",
}
"""What authors call things elsewhere, by the word that this language has for it."""


def suggest(word: str, allowed: Sequence[str], otherwise: str | None = None) -> str:
    """``Did you mean `x`?`` where a word is close, else the words allowed, or what the caller gives."""
    plain = word.strip().casefold().replace(" ", "_").replace("-", "_")
    meant = [each for each, words in _MEANT.items() if each in allowed and plain in words.split()]
    close = meant[:1] or difflib.get_close_matches(word, allowed, 1, 0.6)
    if close:
        return f"Did you mean `{close[0]}`?"
    if otherwise is not None:
        return otherwise
    names = ", ".join(f"`{name}`" for name in sorted(allowed)[:LISTED_MAX])
    return f"Use one of {names}." if names else ""


def likeness(one: str, other: str) -> float:
    """How alike two words are, from 0 to 1."""
    return difflib.SequenceMatcher(None, one, other).ratio()


def expression_fix(source: str) -> str:
    """How to mend an expression that does not compile, where its text shows a usual slip; else nothing."""
    if "{{" in source:
        return "Write the name alone; an expression takes no {{ }}."
    if any(char in source for char in _WIDE_SIGNS):
        return "Write plain signs and words: < > == ( ) , and or, and straight quotes."
    if "&&" in source or "||" in source:
        return "Write `and` and `or`."
    if _ASSIGNS.search(source):
        return "Compare with ==."
    if re.fullmatch(r"[\w\s，。！？,.!?'’-]+", source):
        return f"""A text needs quotes of its own: "'{source.strip()}'"."""
    return ""
