"""Scripts of the stage form as they run: what waits, what is said, and that the conversion runs the same."""

from datetime import UTC, datetime

import pytest

from runtime.migration.migration import plan
from runtime.state.program import Program
from runtime.state.state import Cell
from scripts.parse.conversion import convert
from scripts.parse.read_script import Source, read_file, read_script
from tests.support.paths import STAGE_SCRIPTS
from tests.support.runtime_session import NewSession

MOVING = [
    "阿强",
    "杭州",
    "好的",
    "28",
    "离公司近",
    "B",
    "房间名：客厅，面积：30",
    "房间名：卧室，面积：12",
    "关系：妹妹，名字：小雨",
    "一箱书",
]
RUNS = {"moving.yaml": MOVING, "cooking.yaml": ["Ana", "4", "L", "no", "yes"]}


def program(name: str, *, converted: bool = False) -> Program:
    """Return a script of the folder, as it stands or converted to the native form."""
    source = read_file(STAGE_SCRIPTS / name)
    reading = read_script(source)
    assert reading.script is not None, reading.errors
    if converted:
        text = convert(reading.script, reading).text
        reading = read_script(Source(text, source.file, source.side_files), "compat")
        assert reading.script is not None
        assert reading.script.form == "native"
    return Program(reading.script)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("saved", [False, True], ids=["kept", "saved between turns"])
async def test_the_conversion_says_the_same(prepare: NewSession, name, saved) -> None:
    transcripts = []
    for converted in (False, True):
        session = await prepare(program(name, converted=converted), saved=saved).start()
        await session.reply(*RUNS[name])
        assert session.state.status == "completed"
        transcripts.append([(message.role, message.content) for message in session.messages])
    assert transcripts[0] == transcripts[1]


async def test_say_does_not_wait_and_questions_replies_and_choices_do(prepare: NewSession) -> None:
    session = await prepare(program("moving.yaml")).start()
    assert session.said == ["邻居朋友，您好！我是小方。\n今天我们一起把搬家的事理一理。\n", "小方想知道怎么称呼您"]
    waits = []
    for reply in MOVING:
        assert session.state.wait is not None
        waits.append(session.state.wait.kind)
        await session.reply(reply)
    assert waits == ["text", "text", "suggestion", "text", "text", "choice", "text", "text", "text", "text"]


async def test_a_text_that_spells_a_number_is_compared_as_one(prepare: NewSession) -> None:
    for age, said in (("28", "那么合同可以由您自己来签。"), ("9", "合同需要家里的大人来签。")):
        session = await prepare(program("moving.yaml")).start()
        await session.reply(*MOVING[:3], age)
        assert session.values["年龄"] == age
        assert session.said[0] == said


async def test_lists_are_filled_walked_and_handed_to_skills(prepare: NewSession) -> None:
    session = await prepare(program("moving.yaml")).start()
    await session.reply(*MOVING[:8])
    assert session.values["房间列表"] == [{"房间名": "客厅", "面积": "30"}, {"房间名": "卧室", "面积": "12"}]
    assert session.said == ["客厅：30平方米", "客厅要多准备几个箱子", "卧室：12平方米", "和谁一起搬"]
    await session.reply(MOVING[8])
    assert session.said == ["小雨要带什么（杭州）"]
    await session.reply(MOVING[9])
    assert session.values["家人列表"] == [{"关系": "妹妹", "名字": "小雨", "东西": "一箱书"}]
    assert session.said[0] == "小雨（妹妹）要带：一箱书"
    assert session.said[1:7] == ["准备纸箱", "准备胶带", "准备记号笔", *(f"第{n}个箱子装好了" for n in (1, 2, 3))]


async def test_a_scene_selects_the_speakers_by_their_roles(prepare: NewSession) -> None:
    session = await prepare(program("moving.yaml")).start()
    await session.reply(*MOVING)
    reported = [message for message in session.messages if message.role == "assistant"]
    speakers = [message.metadata["speaker"]["name"] for message in reported]
    assert speakers == ["小方"] * (len(reported) - 3) + ["老李"] * 3


async def test_rule_applies_at_any_time_and_the_question_is_repeated(prepare: NewSession) -> None:
    session = await prepare(program("moving.yaml")).start()
    await session.reply(*MOVING[:3], "救命")
    assert session.said == ["别着急，小方在这里。", "问问阿强今年多大"]
    await session.reply("70", "太贵了")
    assert session.said[0] == "老人家可以打折。"


async def test_a_model_fills_lists_with_several_records_at_once(prepare: NewSession) -> None:
    rooms = [{"房间名": "书房", "面积": "9"}, {"房间名": "厨房", "面积": "22"}]
    text = (STAGE_SCRIPTS / "moving.yaml").read_text("utf-8")
    start, end = text.index("    - goal: 清点房间"), text.index("    - goal: 家里人")
    script = "sessions:\n- session: s\n  declare: [{var: 房间列表, value: []}]\n  stages:\n  - stage: t\n    steps:\n"
    reading = read_script(Source(script + text[start:end]))
    assert reading.script is not None
    replies = {
        "ai_ask_1": ["哪个最大？", {"values": {"房间列表": rooms}, "exit": True}],
        "ai_ask_2": ["还有吗？"],
    }
    session = await prepare(Program(reading.script), replies=replies).start()
    await session.reply("书房和厨房")
    assert session.values["房间列表"] == rooms


async def test_a_global_variable_keeps_what_a_skill_took_for_it(prepare: NewSession) -> None:
    skills = "skills:\n- goal: ask mood\n  actions:\n  - ai_ask: How are you?\n    output: mood\n"
    text = "sessions:\n- session: s\n  stages:\n  - stage: t\n    steps:\n    - goal: g\n      actions:\n"
    text += "      - call: ask mood\n      - say: So {mood}.\n"
    sides = {"skills.yaml": skills, "global.yaml": "global: [{var: mood, value: unknown}]\n"}
    reading = read_script(Source(text, "s.yaml", sides))
    assert reading.script is not None
    session = await prepare(Program(reading.script)).start()
    await session.reply("fine")
    assert session.said == ["So fine."]
    assert isinstance(session.state.global_cells["mood"], Cell)


async def test_a_session_moves_to_the_conversion_of_its_script(prepare: NewSession) -> None:
    text = "sessions:\n- session: 第一次 会谈\n  stages:\n  - stage: 开场，问候\n    steps:\n"
    text += "    - goal: 测试——主诉问题拓展\n      actions:\n"
    text += "      - {ai_ask: 怎么称呼, output: [来访者（姓名）]}\n      - {ai_ask: 几岁, output: [年龄]}\n"
    reading = read_script(Source(text))
    assert reading.script is not None
    converted = convert(reading.script, reading)
    native = read_script(Source(converted.text), "strict")
    assert native.script is not None, native.errors
    old, new = Program(reading.script), Program(native.script)
    session = await prepare(old).start()
    await session.reply("小雨")
    moved = plan(old, new, session.state, datetime(2026, 1, 1, tzinfo=UTC))
    assert (moved.verdict, moved.place) == ("mapped", "开场，问候/测试——主诉问题拓展/ai_ask_2")
    assert moved.state.session_cells["来访者_姓名"].value == "小雨"
    assert "来访者（姓名）: 来访者_姓名" in converted.text
