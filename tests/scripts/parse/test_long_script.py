"""A script of five thousand lines is read and checked like a short one."""

from scripts.model.actions import walk
from tests.support.script_readers import ReadScript, ReadValid

TOPIC = """\
      - topic: topic_{n}
        goal: to hear about day {n}
        declare:
          - {{var: note_{n}, type: text}}
        actions:
          - say: "Now to day {n}, {{{{ visitor }}}}."
            id: say_{n}
          - ask: How was day {n}?
            id: ask_{n}
            output:
              - get: note_{n}
                define: how the day went
            max_rounds: 3
          - if: note_{n} == "bad" and hours > {n}
            id: if_{n}
            then:
              - say: I am sorry to hear that.
                id: sorry_{n}
            else:
              - set: {{hours: hours + 1}}
                id: count_{n}
          - goto: last/end
            id: jump_{n}
            when: hours > 1000 + {n}
"""
TOPICS_A_PHASE = 22
PHASES = 10


def long_script() -> str:
    lines = ["script: long", "declare: [{var: visitor}, {var: hours, type: number, value: 0}]", "phases:"]
    for phase in range(PHASES):
        lines += [f"  - phase: phase_{phase}", "    topics:"]
        lines += [TOPIC.format(n=phase * TOPICS_A_PHASE + n).rstrip() for n in range(TOPICS_A_PHASE)]
    lines += ["  - phase: last", "    topics:", "      - topic: end", "        actions: [{end: done, id: finish}]"]
    return "\n".join(lines) + "\n"


def test_a_long_script_is_read_whole(script: ReadValid) -> None:
    text = long_script()
    assert text.count("\n") >= 5_000
    read = script(text)
    topics = [topic for phase in read.phases for topic in phase.topics]
    assert len(topics) == PHASES * TOPICS_A_PHASE + 1
    assert sum(1 for topic in topics for _ in walk(topic.actions)) == PHASES * TOPICS_A_PHASE * 6 + 1


def test_what_is_wrong_at_its_end_is_found_there(read: ReadScript) -> None:
    lines = long_script().splitlines()
    spoilt = "\n".join([*lines[:-1], "        actions: [{goto: topic_3, id: finish}, {say: '{{ visiter }}', id: bye}]"])
    problems = read(spoilt + "\n").problems
    assert [(problem.code, problem.line, problem.column) for problem in problems if problem.severity == "error"] == [
        ("GOTO_UNKNOWN", len(lines), 26)
    ]
    assert [problem.fix for problem in problems if problem.code == "VARIABLE_NEVER_SET"] == ["Did you mean `visitor`?"]


def test_a_sound_long_script_has_no_problems(read: ReadScript) -> None:
    assert read(long_script()).problems == ()
