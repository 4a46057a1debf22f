"""What a text or expression asks of the built-in names that they do not have."""

from collections.abc import Mapping

from jinja2 import nodes
from msgspec import Struct

from scripts.conditions import EXISTENCE_TESTS, GUARDING_FILTERS
from scripts.members import KINDS, LOOP, Kind
from scripts.suggest import suggest

_OF_THE_SAME = frozenset({"list", "sort", "reverse", "unique", "selectattr", "rejectattr", "select", "reject"})
_BY_ATTRIBUTE = frozenset({"selectattr", "rejectattr"})


class Fault(Struct, frozen=True):
    """A member that a built-in name does not have, or a function that is not called.

    `is_fatal`: evaluating it fails; else it has no value, like a name that is not set.
    """

    root: str  # the built-in name
    message: str
    fix: str
    line: int
    is_fatal: bool = True


class _Found(Struct, frozen=True):
    """The value of a part of a source: what it is, from which built-in name, and how it is written."""

    kind: Kind
    root: str
    spelled: str


def member_faults(tree: nodes.Template, names: frozenset[str]) -> tuple[Fault, ...]:
    """What of the built-in names a parsed source asks for that they do not have; `names` are all it looks up."""
    if not names & KINDS.keys() and not any(tree.find_all(nodes.For)):
        return ()
    walker = _Walker()
    walker.body(tree.body, {})
    return tuple(dict.fromkeys(walker.faults))


class _Walker:
    """Walks through one source; `local` are the names of the loops around, None where they may hold anything."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def body(self, body: list[nodes.Node], local: Mapping[str, _Found | None]) -> None:
        for node in body:
            match node:
                case nodes.Output():
                    for said in node.nodes:
                        self._said(self.value(said, local), said)
                case nodes.Assign():
                    self._said(self.value(node.node, local), node.node)
                case nodes.If():
                    self.value(node.test, local)
                    self.body(node.body, local)
                    self.body([*node.elif_], local)
                    self.body(node.else_, local)
                case nodes.For():
                    self._loop(node, local)
                case _:  # the sandbox has refused all others
                    pass

    def _loop(self, node: nodes.For, local: Mapping[str, _Found | None]) -> None:
        walked = self.value(node.iter, local)
        inner: dict[str, _Found | None] = {each.name: None for each in node.target.find_all(nodes.Name)}
        if isinstance(node.target, nodes.Name):
            name = node.target.name
            item = walked.kind.item if walked is not None else None
            inner = {name: _Found(item, walked.root, name) if walked is not None and item is not None else None}
        inner = {**local, **inner, "loop": _Found(LOOP, "loop", "loop")}
        if node.test is not None:
            self.value(node.test, inner)
        self.body(node.body, inner)
        self.body(node.else_, local)

    def value(self, node: nodes.Node, local: Mapping[str, _Found | None], *, is_guarded: bool = False) -> _Found | None:
        """What a part of a source comes to, where that is known; adds what is wrong with it."""
        match node:
            case nodes.Name():
                found = self._name(node.name, local)
                return found if is_guarded else self._called(found, node)
            case nodes.Getattr() | nodes.Getitem():
                member = self._member(node, local, is_guarded=is_guarded)
                return member if is_guarded else self._called(member, node)
            case nodes.Call():
                return self._call(node, local)
            case nodes.Filter():
                return self._filter(node, local)
            case nodes.Test():
                is_guard = node.name in EXISTENCE_TESTS
                for part in node.iter_child_nodes():
                    self.value(part, local, is_guarded=is_guard)
                return None
            case _:
                for part in node.iter_child_nodes():
                    self.value(part, local)
                return None

    def _name(self, name: str, local: Mapping[str, _Found | None]) -> _Found | None:
        if name in local:
            return local[name]
        return _Found(KINDS[name], name, name) if name in KINDS else None

    def _callee(self, node: nodes.Node, local: Mapping[str, _Found | None]) -> _Found | None:
        match node:
            case nodes.Name():
                return self._name(node.name, local)
            case nodes.Getattr() | nodes.Getitem():
                return self._member(node, local, is_called=True)
            case _:
                return self.value(node, local)

    def _call(self, node: nodes.Call, local: Mapping[str, _Found | None]) -> _Found | None:
        function = self._callee(node.node, local)
        for part in node.iter_child_nodes(exclude=("node",)):
            self.value(part, local)
        if function is None:
            return None
        if not function.kind.example:
            fix = f"Write `{function.spelled}`, without brackets."
            self._add(function.root, f"`{function.spelled}` is no function", fix, node)
            return None
        returns = function.kind.returns
        return None if returns is None else _Found(returns, function.root, f"{function.spelled}(…)")

    def _member(
        self,
        node: nodes.Getattr | nodes.Getitem,
        local: Mapping[str, _Found | None],
        *,
        is_guarded: bool = False,
        is_called: bool = False,
    ) -> _Found | None:
        holder = self.value(node.node, local)
        if isinstance(node, nodes.Getitem):
            self.value(node.arg, local)
        name = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
        if holder is None or name is None:
            return None
        if isinstance(name, int) and not holder.kind.is_record:
            item = holder.kind.item
            return None if item is None else _Found(item, holder.root, f"{holder.spelled}[{name}]")
        return self._named(holder, str(name), node, is_guarded=is_guarded, is_called=is_called)

    def _named(
        self, holder: _Found, name: str, node: nodes.Node, *, is_guarded: bool = False, is_called: bool = False
    ) -> _Found | None:
        """A member by its name; what a record does not have is no value, which nothing can call."""
        kind = holder.kind
        if name in kind.members:
            member = kind.members[name]
            return None if member is None else _Found(member, holder.root, f"{holder.spelled}.{name}")
        if not is_called and (kind.is_open or (kind.is_record and is_guarded)):
            return None
        message = f"`{holder.spelled}` has nothing called `{name}`"
        known = [f"{holder.spelled}.{(each and each.example) or key}" for key, each in kind.members.items()]
        fix = suggest(f"{holder.spelled}.{name}", known) or f"Write `{holder.spelled}` alone."
        self._add(holder.root, message, fix, node, is_fatal=is_called or not kind.is_record)
        return None

    def _filter(self, node: nodes.Filter, local: Mapping[str, _Found | None]) -> _Found | None:
        is_guard = node.name in GUARDING_FILTERS
        source = self.value(node.node, local, is_guarded=is_guard) if node.node is not None else None
        for part in node.iter_child_nodes(exclude=("node",)):
            self.value(part, local)
        if source is None or source.kind.item is None:
            return source if is_guard else None
        item = _Found(source.kind.item, source.root, f"an item of {source.spelled}")
        attribute = next((each.value for each in node.kwargs if node.name == "map" and each.key == "attribute"), None)
        attribute = node.args[0] if node.name in _BY_ATTRIBUTE and node.args else attribute
        if isinstance(attribute, nodes.Const) and isinstance(attribute.value, str) and "." not in attribute.value:
            self._named(item, attribute.value, node)
        if node.name in {"first", "last"}:
            return item
        return source if is_guard or node.name in _OF_THE_SAME else None

    def _called(self, found: _Found | None, node: nodes.Node) -> _Found | None:
        """A value that is used as it is, which a function is not."""
        if found is None or not found.kind.example:
            return found
        holder = found.spelled.rpartition(".")[0]
        example = f"{holder}.{found.kind.example}" if holder else found.kind.example
        self._add(found.root, f"`{found.spelled}` is a function, and needs brackets", f"Write `{example}`.", node)
        return None

    def _said(self, found: _Found | None, node: nodes.Node) -> None:
        found = self._called(found, node)
        if found is not None and not found.kind.is_sayable:
            self._add(found.root, f"`{found.spelled}` has no value of its own", "Write what of it is meant.", node)

    def _add(self, root: str, message: str, fix: str, node: nodes.Node, *, is_fatal: bool = True) -> None:
        self.faults.append(Fault(root, message, fix, node.lineno, is_fatal))
