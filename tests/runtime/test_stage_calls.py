"""Calls and rules of the stage form as they run, and that the conversion runs the same."""

from textwrap import dedent, indent

from runtime.program import Program
from scripts.conversion import convert
from scripts.parse import Reading, Source, read_script

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
    """A script whose one goal does these things."""
    body = "    - goal: g\n      actions:\n" + indent(dedent(actions).strip("\n"), "      ") + "\n"
    found = read_script(Source(HEAD + body, "s.yaml", {f"{name}.yaml": text for name, text in sides.items()}))
    assert found.script is not None, found.errors
    return found


async def test_what_is_handed_over_is_what_the_skill_sees(prepare):
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


async def test_a_rule_says_and_calls(prepare):
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
