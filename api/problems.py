"""Problems of scripts as clients and commands show them."""

from collections.abc import Iterator

from api.schemas.scripts import ProblemView
from scripts.diagnostics import Problem


def problem_views(problems: tuple[Problem, ...]) -> Iterator[ProblemView]:
    """Problems as clients see them."""
    for each in problems:
        yield ProblemView(
            code=each.code,
            severity=each.severity,
            message=each.message,
            fix=each.fix,
            file=each.file,
            line=each.line,
            column=each.column,
            path=each.path,
        )
