"""Forms: several typed fields that are filled in at once."""

from runtime.outcomes import Outcome
from runtime.run import ActionFailed, Run
from scripts.model import Form


def form(run: Run, action: Form) -> Outcome:
    """Shows the form."""
    raise ActionFailed(f"the form {action.sheet} cannot be shown yet")
