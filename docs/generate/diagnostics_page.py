"""The page of all diagnostic codes."""

from scripts.checks.examples import explanation
from scripts.model.diagnostics import CODES


def diagnostics() -> str:
    """Return the page of all diagnostic codes, by name, each with its cause, its fix and an example."""
    listed = sorted(CODES.items())
    rows = [f"| [`{code}`](#{code.lower()}) | {each.severity} | {each.meaning} |" for code, each in listed]
    return "\n".join(
        (
            "# Diagnostics",
            "",
            "After reading this page you can fix what `cuebook check` reports. It lists each code, its cause and fix.",
            "`cuebook explain CODE` prints the same in a terminal. An error prevents publication; a warning does not.",
            "",
            "| code | severity | meaning |",
            "|---|---|---|",
            *rows,
            "",
            *(_diagnostic(code) for code, _ in listed),
        )
    )


def _diagnostic(code: str) -> str:
    found, meant = CODES[code], explanation(code)
    return (
        f"## {code}\n\n{found.meaning}\n\n**Cause.** {meant.cause}\n\n**Fix.** {found.fix}\n\n"
        f"Before:\n\n~~~\n{meant.broken.strip()}\n~~~\n\nAfter:\n\n~~~\n{meant.fixed.strip()}\n~~~\n"
    )
