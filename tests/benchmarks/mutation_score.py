"""The result of the last `make mutants` as a table: which changes of the core no test notices.

A mutant is a copy of a function with one change. It is `refused` if mypy rejects it, `killed` if a test fails or does
not end in time, and `survived` if neither notices it. mutmut stores the results in `mutants/`; this asserts nothing.
"""

import collections
import json
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "mutants"
OUTCOMES = {None: "not run", 0: "survived", 33: "survived", 37: "refused"}
"""Outcomes by the exit code that mutmut stores; 33 is a mutant whose function no test runs. Any other is `killed`."""
COLUMNS = ("refused", "killed", "survived", "not run")


def outcomes_of(results: Path) -> collections.Counter[str]:
    """Count the outcomes of the mutants of a module."""
    codes = json.loads(results.read_text())["exit_code_by_key"].values()
    return collections.Counter(OUTCOMES.get(code, "killed") for code in codes)


def row(name: str, counts: collections.Counter[str]) -> str:
    """Return a row of the table."""
    cells = [name, f"{counts.total():,}", *(f"{counts[column]:,}" for column in COLUMNS)]
    return f"| {' | '.join(cells)} |"


def run() -> None:
    """Print the table in Markdown."""
    modules = {
        str(path.relative_to(RESULTS).with_suffix("")): outcomes_of(path) for path in sorted(RESULTS.rglob("*.meta"))
    }
    print(f"| module | mutants | {' | '.join(COLUMNS)} |")
    print(f"|---|{'---|' * (len(COLUMNS) + 1)}")
    for name, counts in modules.items():
        print(row(f"`{name}`", counts))
    print(row("all", sum(modules.values(), collections.Counter())))


if __name__ == "__main__":
    run()
