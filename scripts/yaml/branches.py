"""The further branches of an `if`: `elif: [{if, then}, …]` stands for an `if` in the `else` of the one before.

The ids of those are the id of the first with the number of the branch: `how_far_2`, `how_far_3`.
"""

from collections.abc import Callable
from typing import Any

from scripts.expressions.suggestions import suggest
from scripts.model.actions import If
from scripts.yaml.parser import Mapping, Sequence, Tree, word

BRANCHES_MAX = 20
BRANCH_KEYS = ("if", "then", "id")
OnFault = Callable[[Tree, str, str], Any]
"""Receives a part that is not a branch, what is expected there, and the fix."""


def nest(tree: Mapping, on_fault: OnFault) -> Mapping:
    """Return the mapping of an `if` with its `elif` as nested mappings."""
    pairs = {key.text: (key, value) for key, value in tree.pairs}
    if "elif" not in pairs:
        return tree
    key, listed = pairs.pop("elif")
    last = pairs.pop("else", None)
    first = pairs["id"][1] if "id" in pairs else None
    for number, branch in reversed(list(enumerate(_branches(listed, on_fault), start=2))):
        own = [*branch.pairs]
        if first is not None and branch.get("id") is None:
            own.append((word("id", branch), word(branch_id(getattr(first, "text", ""), number), branch)))
        inner = Mapping((*own, *([last] if last is not None else [])), branch.at)
        last = (word("else", key), Sequence((inner,), branch.at))
    return Mapping((*pairs.values(), *([last] if last is not None else [])), tree.at)


def branch_id(first: str, number: int) -> str:
    """Return the id of a branch without an id of its own; `number` is 2 for the first `elif`."""
    return f"{first}_{number}"


def branches(action: If) -> tuple[list[If], If]:
    """Return the branches that can be written as `elif`, and the last of all branches: it has the `else`."""
    found: list[If] = []
    last = action
    while len(found) < BRANCHES_MAX and len(last.otherwise) == 1:
        (inner,) = last.otherwise
        if not isinstance(inner, If) or inner.id != branch_id(action.id, len(found) + 2) or not _is_plain(inner):
            break
        found.append(inner)
        last = inner
    return found, last


def _is_plain(branch: If) -> bool:
    return branch.when is None and not branch.tone and not branch.role and branch.interruptible and not branch.milestone


def _branches(tree: Tree, on_fault: OnFault) -> list[Mapping]:
    """Return the mappings of `elif`; everything else is a fault."""
    if not isinstance(tree, Sequence):
        on_fault(tree, "a list of branches", "Write `elif: [{if: age > 12, then: […]}]`.")
        return []
    if len(tree.items) > BRANCHES_MAX:
        on_fault(tree, f"at most {BRANCHES_MAX} branches", "Write a nested `if` in the last `else`.")
    found = []
    for item in tree.items:
        if not isinstance(item, Mapping):
            on_fault(item, "a branch", "Write `{if: age > 12, then: […]}`.")
            continue
        other = next((key for key, _ in item.pairs if key.text not in BRANCH_KEYS), None)
        if other is not None:
            if fix := suggest(other.text, BRANCH_KEYS, ""):
                on_fault(other, "`if`, `then` or `id`", fix)
            else:
                fix = "A branch has only `if`, `then` and `id`; write `else` below the list of `elif`."
                on_fault(item, f"a branch without `{other.text}`", fix)
            continue
        found.append(item)
    return found
