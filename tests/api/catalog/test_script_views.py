"""Views of the problems of a script."""

import time

from api.catalog.script_views import problem_views
from scripts.model.diagnostics import PROBLEMS_MAX, Problem
from scripts.parse.read_script import Source

LINES = 500_000


def test_the_problems_of_a_long_file_are_shown_in_a_moment() -> None:
    source = Source("\n" * LINES + "sai: Hi.", "long.yaml")
    fix = "Did you mean `say`?"
    problem = Problem("UNKNOWN_KEY", "unknown key `sai`", "error", LINES + 1, 1, "long.yaml", fix=fix)
    began = time.process_time()
    views = problem_views([problem] * PROBLEMS_MAX, source)
    assert time.process_time() - began < 2  # for each problem the whole file: more than ten
    assert {view.patch.text for view in views if view.patch is not None} == {"say"}
