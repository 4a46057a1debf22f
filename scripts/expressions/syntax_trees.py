"""Check and change the syntax trees of templates and expressions before they are compiled for the sandbox."""

from collections.abc import Iterable
from math import inf
from typing import Any

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from scripts.expressions.sandbox import SANDBOX, ExpressionInvalid
from scripts.expressions.time_values import FUNCTIONS
from scripts.expressions.values import shorten


def check_allowed(every: Iterable[nodes.Node]) -> None:
    """Refuse statements except `if` and `for`, and calls of `recall` that always fail. Raises ExpressionInvalid."""
    for node in every:
        refused = isinstance(node, nodes.Stmt) and not isinstance(node, nodes.If | nodes.For | nodes.Output)
        if refused and not (isinstance(node, nodes.Assign) and node.lineno == 0):
            name = {"Assign": "set", "AssignBlock": "set"}.get(type(node).__name__, type(node).__name__.lower())
            raise ExpressionInvalid(f"{{% {name} %}} is not available; use {{% if %}} and {{% for %}}", node.lineno)
        if isinstance(node, nodes.For) and node.recursive:
            raise ExpressionInvalid("a loop may not be recursive", node.lineno)
        if isinstance(node, nodes.Name) and (node.name.startswith("_") or node.name == "self"):
            raise ExpressionInvalid(f"{shorten(node.name)} cannot be the name of a variable", node.lineno)
        if isinstance(node, nodes.Const) and node.value == inf:
            raise ExpressionInvalid("the number is too large", node.lineno)
        if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name == "recall":
            _check_recall(node)


def _check_recall(call: nodes.Call) -> None:
    arguments = [*("query", "k", "")[: len(call.args)], *(argument.key for argument in call.kwargs)]
    if sorted(arguments) not in (["query"], ["k", "query"]) and call.dyn_args is None and call.dyn_kwargs is None:
        takes = "recall needs a query and accepts a number of results: recall('sleep', k=3)"
        raise ExpressionInvalid(takes, call.lineno)


def with_time_functions(tree: nodes.Template) -> nodes.Template:
    """Change calls such as ``days(3)`` to filters named ``days()``. Raises ExpressionInvalid."""
    changed: nodes.Template = _TimeCalls().visit(tree)
    return changed


class _TimeCalls(NodeTransformer):
    def visit_Call(self, node: nodes.Call) -> nodes.Node:  # noqa: N802  (the visitor's naming)
        self.generic_visit(node)
        if not isinstance(node.node, nodes.Name) or node.node.name not in FUNCTIONS:
            return node
        name = node.node.name
        if len(node.args) != 1 or node.kwargs or node.dyn_args or node.dyn_kwargs:
            raise ExpressionInvalid(f"`{name}` takes one value, in parentheses", node.lineno)
        return nodes.Filter(node.args[0], f"{name}()", [], [], None, None, lineno=node.lineno)


class MeteredNodes(NodeTransformer):
    """Generates code that counts the steps of comparisons, loops and joined texts."""

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802  (the visitor's naming)
        self.generic_visit(node)
        rest: list[nodes.Expr] = []
        for operand in node.ops:
            rest += [nodes.Const(operand.op), operand.expr]
        return self._call("_compare", [node.expr, *rest], node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return self._call("_concat", node.nodes, node)

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        body = 1 + sum(1 for part in node.body for _ in part.find_all(nodes.Expr))
        self.generic_visit(node)
        node.iter = self._call("_each", [node.iter, nodes.Const(body)], node)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            return self._call("_weigh", [node], node)
        if isinstance(node.node, nodes.Name) and node.node.name == "vars":
            return self._call("_read", [node.node, node.arg], node)
        return node

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        return self._weigh(node, node.items)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        return self._weigh(node, node.items) if node.ctx == "load" else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        return self._weigh(node, [part for pair in node.items for part in (pair.key, pair.value)])

    def _weigh(self, node: nodes.Expr, items: list[nodes.Expr]) -> nodes.Node:
        """Generate code that counts the size of a list or record, unless all its items are written out."""
        self.generic_visit(node)
        is_written = all(isinstance(item, nodes.Const) for item in items)
        return node if is_written else self._call("_weigh", [node], node)

    def visit_CondExpr(self, node: nodes.CondExpr) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.expr2 is None:
            node.expr2 = nodes.Const(None, lineno=node.lineno)
        return node

    def _call(self, name: str, args: list[Any], node: nodes.Node) -> nodes.Call:
        called = nodes.Call(nodes.Name(name, "load"), args, [], None, None, lineno=node.lineno)
        called.set_lineno(node.lineno)
        called.set_environment(SANDBOX)
        return called
