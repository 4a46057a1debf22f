"""Every analysis of a script that reads well, as problems."""

from collections.abc import Collection

from scripts.analysis.answer_words import check_answer_words
from scripts.analysis.arithmetic import check_arithmetic
from scripts.analysis.copies import check_copies
from scripts.analysis.layout import Layout, Spot
from scripts.analysis.paths import find_unset
from scripts.analysis.questions import check_questions
from scripts.analysis.reachability import check_reachability
from scripts.analysis.sense import check_sense
from scripts.analysis.unused import check_names
from scripts.analysis.within import Finding
from scripts.diagnostics import Problems
from scripts.model import Script


def analyse(script: Script, problems: Problems, told: Collection[tuple[str, Spot]]) -> None:
    """Adds what follows from the script as a whole; it must be free of errors.

    `told` are the names, with the place that reads them, of which a problem says already that nothing sets them.
    """
    layout = Layout(script)
    for finding in find_unset(layout):
        if (finding.name, finding.spot) not in told:
            _add_unset(finding, problems)
    check_reachability(layout, problems)
    check_sense(layout, problems)
    check_arithmetic(layout, problems)
    check_questions(layout, problems)
    check_names(layout, problems)
    check_copies(script, problems)
    check_answer_words(script, problems)


def _add_unset(finding: Finding, problems: Problems) -> None:
    if finding.doubt:
        message = f"`{finding.name}` may be unset here, when {finding.doubt}"
    elif finding.is_never:
        message = f"`{finding.name}` has no value here: nothing on the way here sets it"
    else:
        message = f"`{finding.name}` may be unset here: not every way here sets it"
    problems.add("VARIABLE_MAYBE_UNSET", message, finding.at, path="/".join(finding.spot).strip("/"))
