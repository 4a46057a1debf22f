"""Render a graph as a Mermaid flowchart, which many editors and code hosts display.

The syntax: https://mermaid.js.org/syntax/flowchart.html
"""

import re
from collections.abc import Iterator, Mapping

from scripts.graph.graph import END, START, Edge, EdgeKind, Graph, PhaseNode, TopicNode
from scripts.graph.layout import Line, fit, topic_lines

LABEL_EM_MAX = 30.0

_ARROWS: Mapping[EdgeKind, str] = {"order": "-->", "goto": "==>", "call": "-->"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_MARKUP = frozenset("!\"#$%&'*:;<>@[]\\^`{|}~")  # characters that may have a meaning in Mermaid, Markdown or HTML


def mermaid(graph: Graph) -> str:
    """Return the text of the flowchart. Labels are quoted and entity-encoded, so that no text of a script ends one."""
    names = {START: "start", END: "finish"}
    names |= {topic.id: f"t{index}" for index, topic in enumerate(graph.topics)}
    return "".join(f"{line}\n" for line in _lines(graph, names))


def _lines(graph: Graph, names: Mapping[str, str]) -> Iterator[str]:
    # Topics are below each other: a subgraph with edges to the outside cannot have a direction of its own.
    yield "flowchart TB"
    yield '  start(["start"])'
    for index, phase in enumerate(graph.phases):
        yield f'  subgraph p{index}["{_phase_label(phase)}"]'
        for topic in graph.topics:
            if topic.phase == phase.id:
                yield f'    {names[topic.id]}["{_topic_label(topic)}"]'
        yield "  end"
    yield '  finish(["end"])'
    yield from (f"  {names[edge.source]} {_arrow(edge)} {names[edge.target]}" for edge in graph.edges)
    conditional = [names[topic.id] for topic in graph.topics if topic.when]
    if conditional:
        yield "  classDef conditional stroke-dasharray: 5 4"
        yield f"  class {','.join(conditional)} conditional"


def _arrow(edge: Edge) -> str:
    arrow = _ARROWS.get(edge.kind, "-.->")
    return f'{arrow}|"{_escape(f"{edge.action}: {edge.label}")}"|' if edge.label else arrow


def _phase_label(phase: PhaseNode) -> str:
    """Return the label on one line; a second line would be hidden behind the first topic."""
    return _escape(phase.name) + (f" <i>{_escape(f'when {phase.when}')}</i>" if phase.when else "")


def _topic_label(topic: TopicNode) -> str:
    parts = [f"<b>{_escape(topic.topic)}</b>"]
    if topic.when:
        parts.append(f"<i>{_escape(f'when {topic.when}')}</i>")
    parts += [_action_line(line) for line in topic_lines(topic)]
    return "<br/>".join(parts)


def _action_line(line: Line) -> str:
    if line.kind == "action":
        text = _escape(f"{line.item.type} {line.text}")
    elif line.kind == "arm":
        text = f"<b>{_escape(line.text)}</b>"
    else:
        text = f"<i>{_escape(line.text)}</i>"
    return "· " * line.depth + text


def _escape(text: str) -> str:
    line = fit(_CONTROL.sub(" ", text), LABEL_EM_MAX)
    return "".join(f"#{ord(char)};" if char in _MARKUP else char for char in line)
