"""How many tokens a text has for a language model: an estimate, the same one wherever tokens are counted beforehand.

Every model counts in its own way, and none says so before it is asked. A Chinese, Japanese or Korean character counts
as one token (tokenizers take 0.6 to 1.3), any other letter beyond ASCII as half of one, and four ASCII characters as
one. That is near for prose and JSON alike and rather too high than too low; what a call really took stands in its
`Usage`.
"""

import math
import re

ASCII_CHARS_PER_TOKEN = 4
OTHER_CHARS_PER_TOKEN = 2
MESSAGE_TOKENS = 4  # what stands around a message

_CJK = re.compile("[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_OTHER = re.compile("[^\x00-\x7f]")


def tokens_of(text: str) -> int:
    """About how many tokens a text has."""
    if text.isascii():
        return math.ceil(len(text) / ASCII_CHARS_PER_TOKEN)
    without_cjk = _CJK.sub("", text)
    plain = len(_OTHER.sub("", without_cjk))
    other = len(without_cjk) - plain
    cjk = len(text) - len(without_cjk)
    return cjk + math.ceil(other / OTHER_CHARS_PER_TOKEN + plain / ASCII_CHARS_PER_TOKEN)
