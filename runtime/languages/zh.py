"""Chinese. What is peculiar to its script, such as numerals and days, is code in `runtime.answers`."""

from runtime.languages.language import Language

LANGUAGE = Language(
    code="zh",
    phrases={
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
    farewells=("再见", "拜拜", "没有了", "就这些", "结束吧", "不聊了", "先这样"),
    repairs={
        "repeat": ("重复", "重复一遍", "再说一遍", "请再说一遍", "再说一次", "没听清", "刚才问的是什么"),
        "skip": ("跳过", "跳过这个问题", "下一个问题", "下一题", "不想回答", "我不想回答", "不想说"),
        "cancel": ("取消", "算了", "不说了", "不谈这个了", "换个话题"),
        "correct": ("更正", "改一下", "修改", "我说错了", "说错了", "不对", "其实"),
        "hand_over": ("人工", "转人工", "人工客服", "找真人", "我要找真人", "我想和真人说话"),
    },
    becomes=(),
    joins=("以及", "还有"),
    nothing=("无", "没有", "没", "没有了", "都没有", "暂无"),
    is_words=("是", "为"),
    before_labels=("而且", "我的", "我", "和"),
)  # fmt: skip
