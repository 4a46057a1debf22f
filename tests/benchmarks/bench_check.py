"""CPU time of `cuebook check` for a script of 5,000 lines, beside `yaml.load` with the C loader of the same text.

The floor is a process that only imports and parses YAML; each round runs both, one after the other. The second line
is the same without starting a process: reading and checking, beside parsing, both warm. Medians of five rounds.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml
from bench_cli import CUEBOOK, cpu_s
from figures import Figure, show_table

from scripts.expressions.expressions import compile_expression, compile_template
from scripts.parse.read_script import Source, read_script

RUNS = 5
PHASES = 10
TOPICS_A_PHASE = 16
HEAD = """\
script: interview
declare: [{var: visitor}, {var: hours, type: number, value: 0}]
phases:
"""
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
          - ai_ask: Find out how long the visitor slept in night {n}.
            id: sleep_{n}
            output: [{{get: slept_{n}, type: number, define: hours of sleep, min: 0, max: 24}}]
          - if: note_{n} == "bad" and hours > {n}
            id: if_{n}
            then:
              - say: I am sorry to hear that.
                id: sorry_{n}
            else:
              - set: {{hours: hours + slept_{n}}}
                id: count_{n}
          - choose: plan_{n}
            id: choose_{n}
            question: What do you want to do on day {n}?
            choices: [{{walk: Take a walk}}, {{rest: Rest}}]
          - goto: last/end
            id: jump_{n}
            when: hours > 1000 + {n} and plan_{n} == "rest"
"""
END = """\
  - phase: last
    topics:
      - topic: end
        actions: [{end: done, id: finish}]
"""


def script() -> str:
    """Return a valid script of about 5,000 lines."""
    phases = []
    for phase in range(PHASES):
        topics = (TOPIC.format(n=phase * TOPICS_A_PHASE + number) for number in range(TOPICS_A_PHASE))
        phases.append(f"  - phase: phase_{phase}\n    topics:\n{''.join(topics)}")
    return HEAD + "".join(phases) + END


def warm_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def check(text: str) -> None:
    """Read and check a script, without what an earlier check compiled."""
    compile_expression.cache_clear()
    compile_template.cache_clear()
    problems = read_script(Source(text)).problems
    if problems:
        raise SystemExit(f"the script is not valid: {problems[0]}")


def show(name: str, costs: list[tuple[float, float]]) -> float:
    """Print a line: seconds of the work and of its floor, and their ratio; return the seconds of the work."""
    work, floor = (statistics.median(each) for each in zip(*costs, strict=True))
    print(f"{name:28} {work:6.3f} s CPU, floor {floor:6.3f} s, {work / floor:5.1f} x")
    return work


def measure() -> list[Figure]:
    """Print both lines; return the figure."""
    text = script()
    parse = "import sys, yaml; yaml.load(open(sys.argv[1]), yaml.CSafeLoader)"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "script.yaml")
        path.write_text(text, "utf-8")
        commands = [CUEBOOK, "check", str(path)], [sys.executable, "-c", parse, str(path)]
        subprocess.run(commands[0], capture_output=True, check=True, timeout=60)  # compiles the modules
        processes = [(cpu_s(commands[0], folder), cpu_s(commands[1], folder)) for _ in range(RUNS)]
    check(text)
    warm = [(warm_s(lambda: check(text)), warm_s(lambda: yaml.load(text, yaml.CSafeLoader))) for _ in range(RUNS)]
    print(f"a script of {text.count(chr(10)):,} lines")
    checked = show("cuebook check", processes)
    show("read and check, warm", warm)
    return [Figure(name="a script of 5,000 lines checked, CPU", value=checked, must=0.8, aim=0.5, unit="s")]


if __name__ == "__main__":
    show_table(measure())
