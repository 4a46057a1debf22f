"""What a free reply is taken to mean without a model: the value it plainly gives, and nothing where it does not."""

import re
import time
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.answers.booleans import parse_boolean
from runtime.answers.choices import match_choice
from runtime.answers.dates import parse_date
from runtime.answers.lists import parse_list
from runtime.answers.numbers import parse_number
from runtime.answers.reply_values import labelled_parts, parse_answer
from runtime.state.state import Choice

TODAY = date(2026, 3, 4)  # a Wednesday
MOODS = [Choice("A", "很好"), Choice("B", "一般"), Choice("C", "不好")]
COLOURS = ["red", "dark red", "blue"]


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        ("28", 28),
        ("我28岁", 28),
        ("２８", 28),
        ("-2", -2),
        ("+5", 5),
        ("3.5", 3.5),
        ("3.0", 3),
        (".5", 0.5),
        ("1e3", 1000),
        ("1,200", 1200),
        ("It costs 1,234,567.50 in all.", 1234567.5),
        ("about 30", 30),
        ("50%", 50),
        ("５０％", 50),
        ("百分之五十", 50),
        ("百分之百", 100),
        ("28, yes 28.", 28),
        ("age-28", 28),
        ("it was -5 outside", -5),
        ("零下5度", -5),
        ("一次都没有", 0),
        ("我一个也不喜欢", 0),
        ("每周一次都没落下", 1),
        ("七到八分", None),
        ("从一到十打分，我打七分", 7),
        ("minus two", -2),
        ("70kg", 70),
        ("5k", 5000),
        ("5kg", 5),
        ("2.5 million", 2500000),
        ("20万", 200000),
        ("1.5万", 15000),
        ("twenty", 20),
        ("Twenty.", 20),
        ("I am twenty-eight years old", 28),
        ("a twenty-eight-year-old", 28),
        ("twenty (20)", 20),
        ("one hundred and five", 105),
        ("a hundred", 100),
        ("two thousand and twenty four", 2024),
        ("three point five", 3.5),
        ("zero", 0),
        ("one", 1),
        ("one day", 1),
        ("I have one", 1),
        ("I have one child", 1),
        ("thirty one", 31),
        ("one hundred", 100),
        ("two and a half", 2.5),
        ("6½ hours", 6.5),
        ("about 1 ¼, I think", 1.25),
        ("-¾", -0.75),
        ("2½ to 3", None),
        ("二十八岁", 28),
        ("我今年二十八岁了", 28),
        ("廿八", 28),
        ("十", 10),
        ("十分", 10),
        ("十岁", 10),
        ("两百", 200),
        ("兩百", 200),
        ("一百二", 120),
        ("一万二", 12000),
        ("三点五", 3.5),
        ("负二", -2),
        ("三年半", 3.5),
        ("一个", 1),
        ("一", 1),
        ("我有一个孩子", 1),
        ("大概五", 5),
        ("一天三次", None),
        ("每天三次", 3),
        ("五箱书", 5),
        ("一九九零年", 1990),
        ("晚上十点", 10),
        ("每周三次", 3),
        ("五万一千", 51000),
        ("not 5", None),
        ("不到一年", None),
        ("一块五", None),
        ("三斤半", 3.5),
        ("1m75", None),
        ("50m2", 50),
        ("一年多", None),
        ("二十出头", None),
        ("二十来个", 20),
        ("我二十来岁", 20),
        ("每天10来杯", 10),
        ("一百二十来斤", 120),
        ("二十来", None),
        ("给我来五个", 5),
        ("三十多个", None),
        ("三四十来个", None),
        ("几十来个", None),
        ("一米七", None),
        ("一周两次", None),
        ("seven thousandths", None),
        ("5 or 6", None),
        ("5-6", None),
        ("five or six", None),
        ("between 20 and 30", None),
        ("nineteen ninety", None),
        ("三四个", None),
        ("打九折", None),
        ("8.5折", None),
        ("十七八岁", None),
        ("二三十", None),
        ("十几岁", None),
        ("几十", None),
        ("30多岁", None),
        ("in my 30s", None),
        ("hundreds of times", None),
        ("two dozen", None),
        ("half an hour", None),
        ("三分之一", None),
        ("10:30", None),
        ("3/3", None),
        ("1.2.3", None),
        ("2024-05-03", None),
        ("no idea", None),
        ("no one", None),
        ("no one helps me", None),
        ("one of my friends", None),
        ("one should rest", None),
        ("the first one", None),
        ("this one", None),
        ("wait a second", None),
        ("the 3rd", None),
        ("vitamin B12", None),
        ("一些", None),
        ("我一直失眠", None),
        ("等一下", None),
        ("第一次", None),
        ("第二十次", None),
        ("有一天", None),
        ("有一点累", None),
        ("我一个人住", None),
        ("星期三", None),
        ("万一", None),
        ("千万别", None),
        ("十分疼", None),
        ("乱七八糟", None),
        ("不知道", None),
        ("nan", None),
        ("1e999", None),
        ("9" * 60, None),
        ("", None),
    ],
)
def test_a_number_is_read_in_context(reply: str, number: float | None) -> None:
    found = parse_number(reply)
    assert found == number
    assert type(found) is type(number)


@pytest.mark.parametrize(
    ("says", "replies"),
    [
        (
            True,
            "yes|Yes.|yeah sure|yep|y|sure|OK|ＹＥＳ|okay|of course|I do|I think so|that's right|no problem"
            "|why not|Why not?|I wouldn't mind|I couldn't agree more|Don't worry, I will"
            "|not bad|well, yes|I'd say yes|true|yes, I do not sleep|yes, I have 3 children"
            "|是|是的|算是吧|对|对的|嗯|嗯嗯|好|好的|行|有|会|可以|当然|没问题|没有问题|没错|不错|还不错|我有|我觉得是|应该是的|真的"
            "|有，经常失眠|是啊，有时候没有力气|嗯，我会的|有点|我愿意|不好意思，是的|没什么问题|无疑",
        ),
        (
            False,
            "no|No!|nope|n|not ok|I don't think so|I don’t|not really|never|of course not|I have no trouble|false"
            "|no, yes would be a lie|当然不是|肯定没有|几乎没有|我想不是|没有|没|不|不是"
            "|不对|不是的|从来没有|我不觉得|我没有失眠"
            "|我觉得不是|不可能|不想|应该没有|并不|否"
            "|没有，我睡得很好|嗯，没有|嗯没有|不，我有|不太好|都没有|不好意思，没有",
        ),
        (
            None,
            "maybe|I don't know|not sure|no idea|sometimes|yes and no|yes or no|it depends"
            "|really?|right now my head hurts a lot|Not only that|can't wait"
            "|I am a teacher|不知道|我不知道|不确定|不一定|可能|也许|是不是|有没有|好不好"
            "|是也不是|是，也不是|是没有|是吗|对不起|好像|要是|会计|非常|随便"
            "|我睡不着||，。|28|不好意思|不少|不止一次|不久前有过|没准|不得不",
        ),
    ],
)
def test_yes_and_no_are_read_with_their_negation(says: bool | None, replies: str) -> None:
    assert {reply: parse_boolean(reply) for reply in replies.split("|")} == dict.fromkeys(replies.split("|"), says)


@pytest.mark.parametrize(
    ("reply", "day"),
    [
        ("2024-02-29", "2024-02-29"),
        ("1990/5/3", "1990-05-03"),
        ("1990.05.03", "1990-05-03"),
        ("03.05.1990", "1990-05-03"),
        ("not today", None),
        ("去年今天", None),
        ("1990年5月3日", "1990-05-03"),
        ("1990 年 5 月 3 号", "1990-05-03"),
        ("我是1990年5月3日出生的", "1990-05-03"),
        ("一九九零年十二月二十三日", "1990-12-23"),
        ("May 3 1990", "1990-05-03"),
        ("May 3rd, 1990", "1990-05-03"),
        ("3 May 1990", "1990-05-03"),
        ("the 3rd of May 1990", "1990-05-03"),
        ("I was born on 3 May 1990.", "1990-05-03"),
        ("today", "2026-03-04"),
        ("tomorrow", "2026-03-05"),
        ("Since yesterday", "2026-03-03"),
        ("the day after tomorrow", "2026-03-06"),
        ("in 3 days", "2026-03-07"),
        ("two weeks ago", "2026-02-18"),
        ("昨天", "2026-03-03"),
        ("大前天", "2026-03-01"),
        ("三天前", "2026-03-01"),
        ("2周后", "2026-03-18"),
        ("next Friday", "2026-03-06"),
        ("next Wednesday", "2026-03-11"),
        ("this Wednesday", "2026-03-04"),
        ("last Wednesday", "2026-02-25"),
        ("下周五", "2026-03-13"),
        ("上个星期日", "2026-03-01"),
        ("这周天", "2026-03-08"),
        ("2023-02-30", None),
        ("30 February 2023", None),
        ("1990年13月3日", None),
        ("May", None),
        ("May 3", None),
        ("5月3日", None),
        ("1990", None),
        ("1990年5月", None),
        ("28", None),
        ("Friday", None),
        ("周五", None),
        ("last year", None),
        ("2 months ago", None),
        ("去年", None),
        ("garbage", None),
        ("2024-01-01 or 2024-01-02", None),
        ("tomorrow or friday", None),
        ("Friday, or tomorrow", None),
        ("next Monday or on Tuesday", None),
        ("2026-03-05 or Friday", None),
        ("tomorrow or so", "2026-03-05"),
        ("from tomorrow to Friday", None),
        ("明天或周五", None),
        ("明天到周五", None),
        ("周五或者明天", None),
        ("99999 days ago", None),
        ("", None),
    ],
)
def test_a_date_is_read_and_never_guessed(reply: str, day: str | None) -> None:
    assert parse_date(reply, TODAY) == day


@pytest.mark.parametrize(
    ("locale", "reply", "day"),
    [
        ("en", "03/04/2020", "2020-03-04"),
        ("en-US", "03/04/2020", "2020-03-04"),
        ("zh_CN", "03/04/2020", "2020-03-04"),
        ("en-GB", "03/04/2020", "2020-04-03"),
        ("en", "13/04/2020", "2020-04-13"),
        ("en-GB", "04/13/2020", "2020-04-13"),
        ("en", "13/13/2020", None),
    ],
)
def test_locale_decides_which_of_two_small_numbers_is_the_month(locale: str, reply: str, day: str | None) -> None:
    assert parse_date(reply, TODAY, locale) == day


def test_a_date_before_the_calendar_is_none() -> None:
    assert parse_date("9999 weeks ago", date(1, 1, 1)) is None
    assert parse_date("昨天", date.min) is None


@pytest.mark.parametrize(
    ("reply", "items"),
    [
        ("a，b、c", ["a", "b", "c"]),
        ("apples, pears; and plums", ["apples", "pears", "plums"]),
        ("- one thing\n- two\n* three", ["one thing", "two", "three"]),
        ("1. 失眠\n2. 多梦", ["失眠", "多梦"]),
        ("失眠和多梦以及头痛。", ["失眠", "多梦", "头痛"]),
        ("和平、温和", ["和平", "温和"]),
        ("sandwiches", ["sandwiches"]),
        ("3.5, -2", ["3.5", "-2"]),
        ("无", []),
        ("没有。", []),
        ("None", []),
        ("", None),
        ("，、", None),
    ],
)
def test_a_list_is_split_into_its_items(reply: str, items: list[str] | None) -> None:
    assert parse_list(reply) == items


@pytest.mark.parametrize(
    ("reply", "key"),
    [
        ("A", "A"),
        ("a.", "A"),
        ("(b)", "B"),
        ("（b）", "B"),
        ("选A", "A"),
        ("我选B吧", "B"),
        ("I choose c", "C"),
        ("option b, please", "B"),
        ("A. 很好", "A"),
        ("2", "B"),
        ("２", "B"),
        ("二", "B"),
        ("two", "B"),
        ("选2", "B"),
        ("第二个", "B"),
        ("我选第二个，谢谢", "B"),
        ("我选二号吧", "B"),
        ("大概两个小时吧", None),
        ("the second one", "B"),
        ("I'd take the 2nd option", "B"),
        ("最后一个", "C"),
        ("一般", "B"),
        ("一 般！", "B"),
        ("我觉得很好", "A"),
        ("我觉得不好", "C"),
        ("不是很好", None),
        ("倒数第一个", None),
        ("不是第一个", None),
        ("not the first", None),
        ("not A", None),
        ("不选A", None),
        ("不是第一个，是第二个", "B"),
        ("好", "A"),
        ("很好，一般", None),
        ("A or B", None),
        ("4", None),
        ("0", None),
        ("I have had it for 2 years", None),
        ("the first time I felt it", None),
        ("", None),
        ("？", None),
    ],
)
def test_a_choice_is_picked_by_key_position_or_text(reply: str, key: str | None) -> None:
    assert match_choice(reply, MOODS) == key


@pytest.mark.parametrize(
    ("reply", "choices", "key"),
    [
        ("RED", COLOURS, "red"),
        ("dark red please", COLOURS, "dark red"),
        ("dark", COLOURS, "dark red"),
        ("I am bored", COLOURS, None),
        ("red and blue", COLOURS, None),
        ("not red but blue", COLOURS, "blue"),
        ("anything but red", COLOURS, None),
        ("I don't like blue", COLOURS, None),
        ("满意", ["不满意", "一般"], None),
        ("satisfied", ["not satisfied", "neutral"], None),
        ("不", ["不满意", "一般"], "不满意"),
        ("2", ["1", "2", "3", "10"], "2"),
        ("2", ["0", "1", "2"], "2"),
        ("二", ["0", "1", "2"], "2"),
        ("第二个", ["5", "10", "20"], "10"),
        ("10", ["5", "10", "20"], "10"),
        ("2", ["5", "10", "20"], None),
        ("18-25", ["18-25", "26-35"], "18-25"),
        ("yes", ["yes", "YES"], None),
        ("+", ["+", "-"], "+"),
        ("B", ["A. Lyon", "B. Paris"], "B. Paris"),
        ("选b吧", ["A、很好", "B：一般"], "B：一般"),
        ("(b) paris", ["(A) Lyon", "(B) Paris"], "(B) Paris"),
        ("Paris", ["A. Lyon", "B. Paris"], "B. Paris"),
        ("2", ["A) Lyon", "B) Paris"], "B) Paris"),
        ("A", ["A. Lyon", "Paris"], None),
        ("C", ["A. Lyon", "B. Paris"], None),
        ("1", [], None),
    ],
)
def test_a_choice_may_be_a_bare_text(reply: str, choices: list[str], key: str | None) -> None:
    assert match_choice(reply, choices) == key


@pytest.mark.parametrize(
    ("reply", "labels", "parts"),
    [
        ("年龄：25，职业：教师", ["年龄", "职业"], {"年龄": "25", "职业": "教师"}),
        ("age: 25, job: teacher", ["age", "job"], {"age": "25", "job": "teacher"}),
        ("age = 25; job = teacher.", ["age", "job"], {"age": "25", "job": "teacher"}),
        ("Age: 25\nJob: teacher", ["age", "job"], {"age": "25", "job": "teacher"}),
        ("My age is 25 and my job is teacher", ["age", "job"], {"age": "25", "job": "teacher"}),
        ("我的年龄是25，职业是教师。", ["年龄", "职业"], {"年龄": "25", "职业": "教师"}),
        (
            "症状描述：失眠、多梦，持续时间：两周",
            ["症状描述", "持续时间"],
            {"症状描述": "失眠、多梦", "持续时间": "两周"},
        ),
        ("likes: tea, cake, age: 5", ["likes", "age"], {"likes": "tea, cake", "age": "5"}),
        ("first name: Ann", ["first_name", "name"], {"first_name": "Ann"}),
        ("症状描述：失眠", ["症状", "症状描述"], {"症状描述": "失眠"}),
        ("主要症状：失眠，症状：头痛", ["症状", "主要症状"], {"主要症状": "失眠", "症状": "头痛"}),
        ("page: 3", ["age"], {}),
        ("主要症状：失眠", ["症状"], {}),
        ("age: 25, height: 180", ["age"], {"age": "25"}),
        ("height: 180", ["age"], {}),
        ("time: 8:30, or 9:00", ["time"], {"time": "8:30, or 9:00"}),
        ("age: , job: teacher", ["age", "job"], {"job": "teacher"}),
        ("age: 25\nage: 26", ["age"], {"age": "26"}),
        ("I am 25", ["age"], {}),
        ("age: 25", [], {}),
        ("a+b: 1", ["a+b", ""], {"a+b": "1"}),
    ],
)
def test_labelled_parts_end_at_the_next_label_or_line(reply: str, labels: list[str], parts: dict[str, str]) -> None:
    assert labelled_parts(reply, labels) == parts


@pytest.mark.parametrize(
    ("declared", "reply", "value"),
    [
        (None, "  as it stands ", "as it stands"),
        ("text", "28", "28"),
        ("text", "  ", None),
        ("number", "我28岁", 28),
        ("boolean", "没有", False),
        ("date", "昨天", "2026-03-03"),
        ("choice", "第二个", "B"),
        ("list", "a、b", ["a", "b"]),
        ("list", "无", []),
        ("record", '{"a": [1]}', {"a": [1]}),
        ("record", "[1]", None),
        ("record", "a: 1", None),
        ("record", "[" * 5000, None),
        ("record", '{"a": ' + "[" * 20 + "]" * 20 + "}", None),
        ("text", "\ud800", None),
        ("text", "x" * 20_001, None),
    ],
)
def test_an_answer_takes_the_declared_type(declared, reply, value) -> None:
    assert parse_answer(reply, declared, choices=MOODS, today=TODAY, locale="zh") == value


@given(st.integers(0, 99_999), st.sampled_from(["{}", "I am {} years old", "我{}岁", "大概{}吧", "({})", "it is {}."]))
def test_a_whole_number_survives_any_sentence(number: int, sentence: str) -> None:
    assert parse_number(sentence.format(number)) == number
    assert parse_number(sentence.format(f"{number:,}")) == number


@given(st.integers(0, 99_999))
def test_a_number_written_out_in_chinese_is_the_same_number(number: int) -> None:
    import cn2an  # type: ignore[import-untyped]

    assert parse_number(f"我有{cn2an.an2cn(number)}个") == number


_WORDS = st.sampled_from(
    re.findall(
        r"\S+",
        "one two twenty hundred thousand million point minus and a half no not yes or 1 2.5 5k May 3 1990 next Friday"
        " age 第 一 二十 三 万 千 点 半 负 百分之 几 不 没有 是 对 嗯 年 月 日 周五 下 天前 昨天 A 很好 第二个"
        " 2024-02-30 : ， 、 ; - ( \ud800 İ",
    )
)
_REPLIES = st.text(max_size=60) | st.lists(_WORDS, max_size=14).flatmap(
    lambda words: st.sampled_from(["", " "]).map(lambda gap: gap.join(words))
)


@given(_REPLIES, st.lists(st.text(max_size=8), max_size=4))
def test_no_text_makes_a_parser_raise(reply: str, labels: list[str]) -> None:
    for declared in (None, "text", "number", "boolean", "date", "choice", "list", "record"):
        parse_answer(reply, declared, choices=labels, today=TODAY, locale="en")
    assert set(labelled_parts(reply, ["age", *labels])) <= {"age", *labels}


@given(_REPLIES, st.lists(st.text(min_size=1, max_size=6), max_size=5))
def test_a_choice_is_always_one_of_the_keys(reply: str, keys: list[str]) -> None:
    choices = [Choice(key, f"text {key}") for key in keys]
    assert match_choice(reply, choices) in {None, *keys}


@pytest.mark.parametrize(
    "piece",
    re.findall(r"[^|]+", "a|1|1,|1.|-| |一|一十|不|没|我|one |one-|no |a b |,a |a:|age is |May 1 |\t|\n|1 |(|嗯，|hmm")
    + re.findall(r"[^|]+", "第|1年1月|下个|and |age |i |not|1-|A|, a a |my |0.0|A A"),
)
def test_hostile_repetition_is_read_quickly(piece: str) -> None:
    reply = (piece * 2000)[:2000]
    parse_date("3 May 1990", TODAY)  # the import is not what is measured
    started = time.process_time()
    for tail in ("", "!", "x"):
        for declared in ("number", "boolean", "date", "choice", "list", "record"):
            parse_answer(reply + tail, declared, choices=MOODS, today=TODAY, locale="en")
        labelled_parts(reply + tail, ["age", "a b"])
    assert time.process_time() - started < 10
