"""A script as a graph, and the graph as Mermaid and SVG."""

import re
from itertools import pairwise
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.graph.graph import Edge, Graph, PhaseNode, StartNode, TopicNode, build_graph
from scripts.graph.layout import COLUMN_MAX, fit, lay_out, text_width, topic_lines
from scripts.graph.mermaid import mermaid
from scripts.graph.svg import svg
from tests.support.script_readers import ReadValid, library_readings

SCRIPTS = [r.script for r in library_readings() if r.script is not None]
SVG = "{http://www.w3.org/2000/svg}"

JUMPS = """
    script: jumps
    phases:
      - phase: a
        topics:
          - topic: a1
            actions:
              - {goto: c/c2, id: far, when: 1 > 2}
              - {goto: a1, id: again, when: 1 > 3}
              - {ask: How?, id: how, on_fail: goto c}
          - topic: a2
            when: 2 > 1
            actions: [{goto: b, id: onward}]
          - topic: a3
            when: false
            actions: [{end: enough, id: stop}]
      - phase: b
        when: 3 > 2
        topics:
          - topic: b1
            actions:
              - choose: way
                id: way
                choices: [{A: to a, actions: [{goto: a/a2, id: to_a, when: not 0}]}, {B: stay}]
                on_fail: end
              - if: way == "B"
                id: whether
                then: [{goto: b1, id: round}]
                else: [{end: done, id: stop}]
      - phase: c
        topics:
          - topic: c1
            actions: [{say: x, id: x}]
          - topic: c2
            actions: [{repeat: {max: 3}, id: thrice, do: [{say: y, id: y}]}, {ask: z, id: z, on_fail: goto a}]
"""


@pytest.fixture(scope="module")
def jumps(script: ReadValid):
    return build_graph(script(JUMPS))


def in_order(graph: Graph) -> list[tuple[str, str]]:
    return [(edge.source, edge.target) for edge in graph.edges if edge.kind == "order"]


EXPIRING = """
    cuebook: 1
    script: expiring
    timezone: Europe/Berlin
    expire: {after: 1 day, then: goto p/late}
    phases:
      - phase: p
        topics:
          - topic: first
            actions:
              - {ask: Well?, into: x, id: shared}
              - {ask: And?, into: y, id: own, expire: {after: 2 days, then: end}}
              - {say: Read it., id: read, acknowledge: true}
              - {say: Bye., id: bye}
          - {topic: late, actions: [{say: Late., id: late}]}
"""


# -- the graph --------------------------------------------------------------------------------------------------------


def test_nodes_stand_in_the_order_of_the_script(jumps) -> None:
    assert [node.id for node in jumps.nodes] == [
        ":start",
        *("a", "a/a1", "a/a2", "a/a3"),
        *("b", "b/b1"),
        *("c", "c/c1", "c/c2"),
        ":end",
    ]


def test_questions_without_their_own_expiry_have_the_shared_one(script: ReadValid) -> None:
    edges = [edge for edge in build_graph(script(EXPIRING)).edges if edge.kind == "expire"]
    assert edges == [
        Edge("p/first", "p/late", "expire", "shared"),
        Edge("p/first", ":end", "expire", "own"),
        Edge("p/first", "p/late", "expire", "read"),
    ]


def test_the_order_leads_past_a_topic_that_nothing_leaves(jumps) -> None:
    assert in_order(jumps) == [
        (":start", "a/a1"),
        ("a/a1", "a/a2"),
        ("a/a1", "b/b1"),  # a2 jumps away and may be skipped; a3 is never entered in order
        ("a/a1", "c/c1"),  # b may be skipped as a whole, and nothing goes on from it
        ("c/c1", "c/c2"),
        ("c/c2", ":end"),
    ]


def test_a_topic_with_a_condition_is_passed_through(script: ReadValid) -> None:
    graph = build_graph(
        script("""
        script: plain
        phases:
          - phase: a
            topics:
              - {topic: one, actions: [{say: x, id: x}]}
              - {topic: two, when: 1 > 2, actions: [{say: x, id: x}]}
              - {topic: three, actions: [{say: x, id: x}]}
        """)
    )
    assert in_order(graph) == [(":start", "a/one"), ("a/one", "a/two"), ("a/two", "a/three"), ("a/three", ":end")]


def test_jumps_name_their_action_and_conditions_nearest_first(jumps) -> None:
    assert [edge for edge in jumps.edges if edge.kind != "order"] == [
        Edge("a/a1", "c/c2", "goto", "far", ("1 > 2",)),
        Edge("a/a1", "a/a1", "goto", "again", ("1 > 3",)),
        Edge("a/a1", "c/c1", "on_fail", "how"),
        Edge("a/a2", "b/b1", "goto", "onward"),
        Edge("a/a3", ":end", "end", "stop"),
        Edge("b/b1", ":end", "on_fail", "way"),
        Edge("b/b1", "a/a2", "goto", "to_a", ("not 0", "way is A")),
        Edge("b/b1", "b/b1", "goto", "round", ('way == "B"',)),
        Edge("b/b1", ":end", "end", "stop", ('not (way == "B")',)),
        Edge("c/c2", "a/a1", "on_fail", "z"),
    ]


def test_an_edge_says_what_it_is() -> None:
    assert Edge("a/b", "a/c", "order").label == ""
    assert Edge("a/b", "a/c", "goto", "x", ("age > 3", "way is A")).label == "goto when age > 3 and way is A"
    assert Edge("a/b", "a/c", "on_fail", "x", ("way is A",)).label == "on_fail"


def test_a_box_lists_actions_with_conditions_and_arms(jumps) -> None:
    topic = next(topic for topic in jumps.topics if topic.id == "b/b1")
    assert [(line.kind, line.depth, line.text) for line in topic_lines(topic)] == [
        ("action", 0, "way"),
        ("on_fail", 1, "on_fail end"),
        ("arm", 1, "A"),
        ("action", 1, "to_a"),
        ("when", 2, "when not 0"),
        ("detail", 2, "→ a/a2"),
        ("action", 0, "whether"),
        ("detail", 1, 'way == "B"'),
        ("arm", 1, "then"),
        ("action", 1, "round"),
        ("detail", 2, "→ b1"),
        ("arm", 1, "else"),
        ("action", 1, "stop"),
        ("detail", 2, "done"),
    ]


@pytest.mark.parametrize("example", SCRIPTS, ids=lambda script: script.id)
def test_every_way_of_the_examples_leads_from_node_to_node(example) -> None:
    graph = build_graph(example)
    ids = [node.id for node in graph.nodes]
    assert len(ids) == len(set(ids))
    assert all(edge.source in ids and edge.target in ids for edge in graph.edges)


# -- Mermaid ----------------------------------------------------------------------------------------------------------

_LABEL = r'"(?:[^"\[\]{}|`;#&<>%]|#\d+;|</?[bi]>|<br/>)*"'
_STATEMENTS = [
    r"flowchart TB",
    r'  start\(\["start"\]\)',
    r'  finish\(\["end"\]\)',
    rf"  subgraph p\d+\[{_LABEL}\]",
    rf"    t\d+\[{_LABEL}\]",
    r"  end",
    rf"  (?:start|t\d+) (?:-->|==>|-\.->)(?:\|{_LABEL}\|)? (?:finish|t\d+)",
    r"  classDef conditional stroke-dasharray: 5 4",
    r"  class t\d+(?:,t\d+)* conditional",
]


def is_flowchart(text: str) -> bool:
    return all(any(re.fullmatch(each, line) for each in _STATEMENTS) for line in text.removesuffix("\n").split("\n"))


@pytest.mark.parametrize("example", SCRIPTS, ids=lambda script: script.id)
def test_the_examples_are_flowcharts(example) -> None:
    assert is_flowchart(mermaid(build_graph(example)))


def test_mermaid_shows_actions_conditions_and_labelled_jumps(jumps) -> None:
    text = mermaid(jumps)
    assert '  subgraph p1["b <i>when 3 #62; 2</i>"]' in text
    assert '    t1["<b>a2</b><br/><i>when 2 #62; 1</i><br/>goto onward<br/>· <i>→ b</i>"]' in text
    assert '  t0 ==>|"far#58; goto when 1 #62; 2"| t5' in text
    assert '  t0 -.->|"how#58; on_fail"| t4' in text
    assert "  class t1,t2 conditional" in text


# -- SVG --------------------------------------------------------------------------------------------------------------


def read_svg(text: str) -> Xml.Element:
    return Xml.fromstring(text)  # noqa: S314 - our own text


def test_a_picture_says_in_words_what_it_shows(jumps) -> None:
    root = read_svg(svg(jumps))
    assert root.findtext(f"{SVG}title") == "jumps"
    described = root.findtext(f"{SVG}desc")
    assert "Phase a: a1, a2, a3." in described
    assert "a/a1 → c/c2 (goto when 1 > 2)." in described
    assert "b/b1 → end (on_fail)." in described


def test_a_picture_shows_every_topic_action_and_label(jumps) -> None:
    root = read_svg(svg(jumps))
    shown = [text.text for tag in ("text", "tspan") for text in root.iter(f"{SVG}{tag}")]
    shown += [title.tail for title in root.iter(f"{SVG}title")]
    for topic in jumps.topics:
        assert topic.topic in shown
        assert all(item.id in shown for item in topic.actions)
    assert {"goto when 1 > 2", "on_fail", "when 3 > 2"} <= set(shown)


def test_a_picture_needs_nothing_from_outside(jumps) -> None:
    text = svg(jumps)
    assert re.findall(r'(?:href|src)=|url\((?!#)|@import|http(?!://www\.w3\.org/2000/svg")', text) == []


@pytest.mark.parametrize("example", SCRIPTS, ids=lambda script: script.id)
def test_nothing_overlaps_in_the_examples(example) -> None:
    assert_tidy(build_graph(example))


def test_nothing_overlaps_where_jumps_lead_everywhere(jumps) -> None:
    assert_tidy(jumps)


def assert_tidy(graph: Graph) -> None:
    """Assert that boxes stand apart and on the page, and no edge crosses one."""
    layout = lay_out(graph)
    boxes = [box.rect for column in layout.columns for box in column.boxes]
    assert all(column.rect.width <= COLUMN_MAX for column in layout.columns)
    assert all(one.right < two.x or one.bottom < two.y for one, two in pairwise(boxes))
    assert all(rect.x > 0 and rect.right < layout.width and rect.bottom < layout.height for rect in boxes)
    for way in layout.ways:
        for (x1, y1), (x2, y2) in pairwise(way.points):
            left, right, top, bottom = min(x1, x2), max(x1, x2), min(y1, y2), max(y1, y2)
            for rect in boxes:
                apart = right <= rect.x or left >= rect.right or bottom <= rect.y or top >= rect.bottom
                assert apart, (way.edge, rect)


def test_a_way_begins_beside_its_action_and_ends_at_its_topic(jumps) -> None:
    layout = lay_out(jumps)
    boxes = {box.topic.id: box for column in layout.columns for box in column.boxes}
    way = next(way for way in layout.ways if way.edge.action == "to_a")
    source, target = boxes["b/b1"], boxes["a/a2"].rect
    assert way.points[0] == (source.rect.right, source.first_line + 3 * 18)
    assert way.points[-1][0] == target.right
    assert target.y < way.points[-1][1] < target.bottom


# -- text of any kind -------------------------------------------------------------------------------------------------


def test_wide_characters_count_double_and_marks_nothing() -> None:
    assert text_width("睡眠") == 2.0
    assert text_width("sleep") < 4.0
    assert text_width("e\u0301") == text_width("e")


def test_a_text_is_cut_where_it_is_too_wide() -> None:
    assert fit("睡眠质量", 4.0) == "睡眠质量"
    assert fit("睡眠质量", 3.9) == "睡眠…"
    assert fit(" two\n words ", 20) == "two words"


@given(st.text(st.characters(), max_size=40))
def test_any_text_makes_a_sound_picture(text) -> None:
    topic = TopicNode(id="p/t", phase="p", topic=text, title=text, goal=text, when=text)
    phase = PhaseNode(id="p", title=text, goal=text, when=text)
    jump = Edge("p/t", "p/t", "goto", text, (text,))
    graph = Graph(text, text, (StartNode(), phase, topic), (Edge(":start", "p/t", "order"), jump))
    assert is_flowchart(mermaid(graph))
    assert read_svg(svg(graph)).tag == f"{SVG}svg"


BESIDE = """
    script: beside
    interrupts:
      - {interrupt: price, on: [price, cost], when: 1 < 2, do: [{call: count, id: how_much}]}
      - {interrupt: stop, on: [goodbye], then: end}
      - {interrupt: away, on: the user is bored, then: goto q/b}
      - {interrupt: help, on: {detector: crisis}}
    detectors:
      - detector: crisis
        define: danger to life
        rules: [{words: [die, 想死]}]
        when: 3 > 2
        do: [{emit: {event: crisis}, id: call}, {if: 1 < 2, id: grave, then: [{end: over, id: over}]}]
      - {detector: mood, title: A low mood, measures: [{measure: valence, lexicon: valence}], rules: [{words: [sad]}]}
    skills:
      - {skill: breathe, title: A pause, goal: calm, actions: [{call: count, id: c, when: 2 > 1}]}
      - {skill: count, actions: [{ask: Done?, id: d, on_fail: end}]}
    phases:
      - {phase: p, topics: [{topic: a, actions: [{call: breathe, id: first}, {call: breathe, id: second}]}]}
      - {phase: q, topics: [{topic: b, actions: [{form: sheet, id: fill}]}]}
    forms: [{form: sheet, fields: [city]}]
"""


def test_skills_and_interrupts_stand_beside_the_phases(script: ReadValid) -> None:
    graph = build_graph(script(BESIDE))
    assert [(phase.name, phase.is_beside) for phase in graph.phases] == [
        ("p", False),
        ("q", False),
        ("skills", True),
        ("interrupts", True),
        ("detectors", True),
    ]
    beside = {topic.id: (topic.title, topic.goal, topic.when) for topic in graph.topics if topic.phase.startswith(":")}
    assert beside == {
        ":skills/breathe": ("A pause", "calm", ""),
        ":skills/count": ("", "", ""),
        ":interrupts/price": ("price, cost", "", "1 < 2"),
        ":interrupts/stop": ("goodbye", "", ""),
        ":interrupts/away": ("the user is bored", "", ""),
        ":interrupts/help": ("crisis", "", ""),
        ":detectors/crisis": ("die, 想死, danger to life", "", "3 > 2"),
        ":detectors/mood": ("A low mood", "", ""),
    }
    crisis = next(topic for topic in graph.topics if topic.topic == "crisis")
    assert [(each.id, each.type, each.depth) for each in crisis.actions] == [
        ("call", "emit", 0),
        ("grave", "if", 0),
        ("over", "end", 1),
    ]


def test_calls_lead_to_skills_and_interrupts_to_where_they_go_on(script: ReadValid) -> None:
    graph = build_graph(script(BESIDE))
    assert [edge for edge in graph.edges if edge.kind != "order"] == [
        Edge("p/a", ":skills/breathe", "call", "first"),
        Edge("p/a", ":skills/breathe", "call", "second"),
        Edge(":skills/breathe", ":skills/count", "call", "c", ("2 > 1",)),
        Edge(":skills/count", ":end", "on_fail", "d"),
        Edge(":interrupts/price", ":skills/count", "call", "how_much"),
        Edge(":detectors/crisis", ":end", "end", "over", ("1 < 2",)),
        Edge(":interrupts/stop", ":end", "end", "stop"),
        Edge(":interrupts/away", "q/b", "goto", "away"),
        Edge(":detectors/crisis", ":interrupts/help", "detect", "crisis"),
    ]
    assert all(word in svg(graph) for word in ("breathe", "count", "price, cost", "the user is bored", "想死"))
    assert all(f"<b>{word}</b>" in mermaid(graph) for word in ("breathe", "count", "price", "away", "crisis"))
    assert '-.->|"crisis#58; detect"|' in mermaid(graph)


def test_a_script_without_topics_leads_from_its_start_to_its_end(script: ReadValid) -> None:
    graph = build_graph(script("script: empty\nphases: [{phase: only, topics: []}]\n"))
    assert in_order(graph) == [(":start", ":end")]
    read_svg(svg(graph))
