"""What happens when a budget is used up: the turn still ends well, and the session waits where it was."""

from runtime.asides import Aside, perform
from runtime.budgets import BudgetExceeded
from runtime.outcomes import Finish, Outcome, Waits
from runtime.phrases import phrase
from runtime.run import Run
from runtime.state import Wait
from scripts.model import ON_BUDGET


def run_out(run: Run, exceeded: BudgetExceeded, wait: Wait) -> Outcome:
    """Does what the script has for it, or says that it cannot go on just now; then the session waits, or ends."""
    run.warn("budget_exceeded", str(exceeded))
    finish: Finish | None = None
    if run.program.script.on_budget:
        with Aside(run, ON_BUDGET, {}):
            finish = perform(run, run.program.script.on_budget)
    else:
        run.say(phrase(run.state.locale, "busy", own=run.program.script.phrases))
    return finish or Waits(wait)
