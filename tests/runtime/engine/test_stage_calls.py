"""Calls and rules of the stage form as they run, and that the conversion runs the same."""

from textwrap import dedent, indent

from runtime.state.program import Program
from scripts.parse.conversion import convert
from scripts.parse.read_script import Reading, Source, read_script
from tests.support.runtime_session import NewSession

HEAD = "sessions:\n- session: s\n  declare: [姓名, {var: 家人, value: []}]\n  stages:\n  - stage: t\n    steps:\n"
SKILLS = """\
skills:
- goal: 深度了解
  declare: [角色, 称呼]
  actions:
  - ai_ask: 说说{角色}{称呼}
    output: [get: 情况]
"""


def read(actions: str, **sides: str) -> Reading:
    """Return a script whose one goal does these things."""
    body = "    - goal: g\n      actions:\n" + indent(dedent(actions).strip("\n"), "      ") + "\n"
    found = read_script(Source(HEAD + body, "s.yaml", {f"{name}.yaml": text for name, text in sides.items()}))
    assert found.script is not None, found.errors
    return found


async def test_what_is_handed_over_is_what_the_skill_sees(prepare: NewSession) -> None:
    actions = """
        - ai_ask: 谁
          tolist: 家人
          output: [角色, 称呼]
        - call: 深度了解
          input:
          - {set: 角色, value: 客人}
          - {set: 称呼, value: "{姓名}"}
        - call: 深度了解
          fromlist: 家人
        - say: "{%user%} {%who%}: {姓名}"
    """
    found = read("- ai_ask: 叫什么\n  output: 姓名\n" + dedent(actions), skills=SKILLS)
    converted = read_script(Source(convert(found.script, found).text, "s.yaml", found.source.side_files))
    for script in (found.script, converted.script):
        session = await prepare(Program(script)).start()
        await session.reply("小雨", "角色：妈妈，称呼：阿姨")
        assert session.said == ["说说客人小雨"]
        await session.reply("好")
        assert session.said == ["说说妈妈阿姨"]
        await session.reply("好")
        assert session.said == [f"{session.state.user_id} AI: 小雨"]


RULES = """\
rules:
- rule: 求助
  keywords: 救命
  check_time: 用户每次说话后
  say: 别着急，{姓名}
- rule: 问问
  on: [聊聊家人]
  call: 深度了解
  input: [{set: 角色, value: 家人}, {set: 称呼, value: "{姓名}"}]
"""


async def test_a_rule_says_and_calls(prepare: NewSession) -> None:
    found = read("- ai_ask: 叫什么\n  output: 姓名\n- ai_ask: 几岁\n  output: 年龄\n", skills=SKILLS, rules=RULES)
    assert found.script is not None, found.errors
    converted = read_script(Source(convert(found.script, found).text, "s.yaml", found.source.side_files))
    for script in (found.script, converted.script):
        session = await prepare(Program(script)).start()
        await session.reply("小雨", "救命")
        assert session.said == ["别着急，小雨", "几岁"]
        await session.reply("聊聊家人")
        assert session.said == ["说说家人小雨"]
        await session.reply("很好")
        assert session.said == ["几岁"]


async def test_who_is_the_name_of_the_role_that_speaks(prepare: NewSession) -> None:
    roles = "roles:\n- {role: 守望精灵, name: 喵喵}\n- {role: 向导}\n- {role: 心旅者, type: HUMAN, name: 迷路者}\n"
    skills = "skills: [{goal: 介绍, actions: [{say: '{%who%}来了'}]}]\n"
    actions = "- say: '我是{%who%}'\n- scene: a\n  ai: 守望精灵\n- say: '我是{%who%}'\n- call: 介绍\n"
    actions += "- say: '{%who%}'\n  role: 向导\n- set: 谁\n  value: '{%who%}'\n- say: '{谁}'\n"
    found = read(actions, roles=roles, skills=skills)
    converted = read_script(Source(convert(found.script, found).text, "s.yaml", found.source.side_files))
    for script in (found.script, converted.script):
        session = await prepare(Program(script)).start()
        assert session.said == ["我是AI", "我是喵喵", "喵喵来了", "向导", "喵喵"]
