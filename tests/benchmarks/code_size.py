"""The size of the code: lines by folder, the longest functions, and module names that a package uses often.

A line counts if it holds code: blank lines, comments and docstrings, also those of fields, do not. Run by `make size`;
asserts nothing.
"""

import ast
import collections
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("api", "runtime", "scripts", "store")
FUNCTIONS_SHOWN = 10
NAME_USES_MAX = 3


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that docstrings take: strings that are statements."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def code_lines(text: str) -> int:
    """Count the lines of a module that hold code."""
    skipped = docstring_lines(ast.parse(text))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and n not in skipped for n, line in lines)


def functions(path: Path) -> Iterator[tuple[int, str]]:
    """Yield length in lines and name of each function of a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{path.relative_to(ROOT)}:{node.name}"


def run() -> None:
    """Print the three lists."""
    by_folder: collections.Counter[str] = collections.Counter()
    longest: list[tuple[int, str]] = []
    for package in PACKAGES:
        names: collections.Counter[str] = collections.Counter()
        for path in (ROOT / package).rglob("*.py"):
            by_folder[str(path.parent.relative_to(ROOT))] += code_lines(path.read_text())
            longest += functions(path)
            names[path.stem] += path.stem != "__init__"
        total = sum(lines for folder, lines in by_folder.items() if folder.split("/")[0] == package)
        often = [f"{name} ({uses})" for name, uses in names.most_common() if uses > NAME_USES_MAX]
        print(f"{package}: {total:,} lines; names used by more than {NAME_USES_MAX} modules: {', '.join(often) or '-'}")
    print(f"all: {sum(by_folder.values()):,} lines")
    print("\n".join(f"  {lines:6,} {folder}" for folder, lines in sorted(by_folder.items())))
    print("longest functions:")
    print("\n".join(f"  {length:4} {name}" for length, name in sorted(longest, reverse=True)[:FUNCTIONS_SHOWN]))


if __name__ == "__main__":
    run()
