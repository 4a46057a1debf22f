"""What simulated visitors say, by language: plausible words for what scripts ask, and for when people do not answer."""

import re
from collections.abc import Mapping

from msgspec import Struct

from scripts.model import Locale
from scripts.strings import language

OTHERWISE = "en"  # for the languages that have no words here


class Vocabulary(Struct, frozen=True):
    """The words of a language."""

    language: str
    about: Mapping[str, tuple[str, ...]]  # by what a question is about, see `SUBJECTS`
    texts: tuple[str, ...]  # where nobody knows what it is about
    yes: tuple[str, ...]
    no: tuple[str, ...]
    numbers: tuple[str, ...]  # how a number is said
    days: Mapping[int, str]  # words for days, by how far they are
    things: tuple[str, ...]  # to be listed
    going_on: tuple[str, ...]  # where nothing is asked
    lost: tuple[str, ...]  # where the question is not understood, or not answered
    lead: tuple[str, ...]  # before words that set something off
    comma: str


SUBJECTS: Mapping[str, re.Pattern[str]] = {
    "email": re.compile(r"e-?mail|邮箱|邮件"),
    "phone": re.compile(r"phone|number to call|电话|手机"),
    "time": re.compile(r"\btime\b|bedtime|o'clock|几点|时间"),
    "place": re.compile(r"city|country|place|where|street|town|城市|国家|地方|哪里"),
    "step": re.compile(r"\bstep\b|smallest|一小步"),
    "goal": re.compile(r"goal|hope|working towards|like to have|目标|希望"),
    "hurdle": re.compile(r"hurdle|in the way|妨碍|障碍"),
    "trouble": re.compile(r"trouble|worr|concern|keeps .* awake|weighs|burden|困扰|担心|烦恼"),
    "help": re.compile(r"help|carried|remedy|帮助"),
    "name": re.compile(r"name|called|call you|who |whom|person|companion|guest|称呼|名字|姓名"),
}
"""What questions are about, by the words of their variables; the first that is found counts."""

BIRTH = re.compile(r"birth|born|出生")

_ENGLISH = Vocabulary(
    language="en",
    about={
        "email": (
            "ana@example.org", "ben.miller@example.com", "it's chris@example.net", "maria.k@example.org",
            "you can write to lou@example.com",
        ),
        "phone": ("+49 170 1234567", "0151 2345678", "020 7946 0018", "call me on +44 7700 900123", "030-1234567"),
        "time": ("22:30", "23:00", "around 22:45", "17:30", "21:15", "half past ten, so 22:30", "7:45"),
        "place": ("Lisbon", "a small town by the sea", "Berlin", "Portugal", "near the old harbour", "Canada", "Kyoto"),
        "step": (
            "go for a walk after lunch", "call my sister", "write the letter", "put the phone in the kitchen",
            "ten minutes of tidying", "look up the opening hours", "make one phone call",
        ),
        "goal": (
            "sleep through the night", "finish my application", "run twice a week", "be less tired in the morning",
            "read a book again", "more patience with the children", "eat at home more often",
        ),
        "hurdle": (
            "too much work", "I kept putting it off", "the children were ill", "I was tired every evening",
            "the weather", "nothing really", "my calendar", "I forgot about it until Thursday",
        ),
        "trouble": (
            "my job, mostly", "I can't stop thinking about money", "my mother is ill", "everything at once",
            "the noise from the street", "an exam next month", "a quarrel with my brother", "my back hurts at night",
        ),
        "help": ("music", "talking to a friend", "a long walk", "tea and a book", "writing things down", "sport"),
        "name": (
            "Ana", "Ben", "my name is Chris", "Maria", "I'm Lou", "Samir", "Kate", "Tom", "call me Jo", "Ingrid",
            "Noah", "Elif", "Marek", "Sofia", "my sister Eva", "Paul",
        ),
    },
    texts=(
        "it has been like this for a while", "since the new job, I think", "not much to say about that",
        "a bit of both", "I would like to try", "that is a good question", "it depends on the day", "more rest",
        "the usual", "I talked to my doctor about it", "it got better last week",
        "to be honest, I have not thought about it much, but it does bother me",
        "mostly in the evening, when it gets quiet and there is nothing left to do",
    ),
    yes=("yes", "Yes", "yes, please", "yeah", "of course", "I think so", "yes, sometimes", "yep"),
    no=("no", "No", "not really", "no, thanks", "never", "nope", "I don't think so"),
    numbers=("{}", "{}", "{}", "about {}", "{} I think", "I'd say {}", "{}."),
    days={-1: "yesterday", -7: "a week ago", -14: "two weeks ago", 0: "today", 1: "tomorrow", 7: "in a week",
          14: "in two weeks"},
    things=(
        "work", "money", "the noise", "my back", "coffee too late", "the phone", "the neighbours", "ibuprofen",
        "vitamin D", "tea", "an exam", "my parents", "too little time", "the garden", "a cake",
    ),
    going_on=("ok", "okay", "ready", "done", "yes, go on", "all right", "thank you", "sounds right", "I see", "fine"),
    lost=(
        "I don't know", "what do you mean?", "hm", "no idea", "?", "why do you ask?", "can we do this later",
        "not sure what to answer", "", "asdf", "that is private", "it's complicated",
    ),
    lead=("", "", "sorry, ", "well, ", "honestly, ", "wait, ", "these days "),
    comma=", ",
)  # fmt: skip

_CHINESE = Vocabulary(
    language="zh",
    about={
        "email": ("wangfang@example.com", "li.lei@example.org", "邮箱是 chen@example.net"),
        "phone": ("13800138000", "010-12345678", "电话 13912345678"),
        "time": ("22:30", "23:00", "大概 22:45", "17:30", "21:15"),
        "place": ("上海", "杭州", "一个海边的小城", "成都", "加拿大", "老家附近"),
        "step": ("午饭后散步", "给姐姐打电话", "把手机放在客厅", "收拾十分钟", "先写一封信"),
        "goal": ("一觉睡到天亮", "每周跑两次步", "早点下班", "把申请写完", "多陪陪孩子"),
        "hurdle": ("工作太忙", "一直拖着", "孩子生病了", "晚上太累了", "天气不好", "忘了"),
        "trouble": ("主要是工作", "总想着钱的事", "妈妈身体不好", "下个月有考试", "跟弟弟吵架了", "晚上腰疼"),
        "help": ("听音乐", "跟朋友聊天", "散步", "喝茶看书", "写下来"),
        "name": ("王芳", "我叫李雷", "小明", "陈女士", "张伟", "叫我小林", "刘洋", "赵敏", "周先生", "孙丽"),
    },
    texts=(
        "有一阵子了", "换了工作以后开始的", "说不上来，两样都有一点", "看当天的情况", "想多休息休息", "跟医生聊过",
        "上周好一点了", "老实说，没怎么想过，不过确实挺烦的", "主要是晚上，安静下来以后",
    ),
    yes=("是", "是的", "对", "嗯，是的", "会", "有", "好的", "当然"),
    no=("不是", "不", "没有", "不会", "不用了", "没有吧"),
    numbers=("{}", "{}", "大概{}", "{}吧", "差不多{}", "我觉得{}"),
    days={-1: "昨天", -7: "7天前", -14: "两周前", 0: "今天", 1: "明天", 7: "7天后", 14: "两周后"},
    things=("工作", "钱", "噪音", "腰疼", "咖啡", "手机", "邻居", "孩子", "考试", "做梦", "打呼噜", "太热"),
    going_on=("好的", "嗯", "可以了", "做完了", "谢谢", "明白", "继续吧", "没有了"),
    lost=("不知道", "什么意思？", "嗯……", "没想好", "？", "为什么问这个", "一会儿再说吧", "", "不好说"),
    lead=("", "", "其实", "说实话，", "等一下，", "最近"),
    comma="，",
)  # fmt: skip

_BY_LANGUAGE: Mapping[str, Vocabulary] = {each.language: each for each in (_ENGLISH, _CHINESE)}


def vocabulary_of(locale: Locale) -> Vocabulary:
    """The words of a language, English ones where there are none."""
    return _BY_LANGUAGE.get(language(locale), _BY_LANGUAGE[OTHERWISE])
