"""The slips of people who write no programs: which line `check` names, in which words, and the cure it gives."""

import re

import pytest

from scripts.model.diagnostics import CODES
from scripts.parse.read_script import Source, read_script

HEAD = "script: visit\nphases:\n  - phase: hello\n    topics:\n      - topic: welcome\n        actions:\n"
JARGON = re.compile(
    r"block (?:mapping|collection|entry)|flow (?:mapping|sequence)|simple key|\bexpected '|<document|could not find|"
    r"did not find|while (?:parsing|scanning)|indicator|scalar|token|mapping values|alias\b|anchor\b|directive"
)
SMALL = """
- say: "Good morning, {{ name }}."
  id: greet
- {ask: 'What is it?', id: what, output: [{get: it, type: text}]}
- if: it == "sleep"
  id: branch
  then:
    - say: |
        Two lines:
        both are said.
      id: lines
"""


def script(*lines: str) -> str:
    """Return the lines as the actions of a topic; one that begins with a backslash is not indented."""
    placed = (line if line.startswith("\\") else f"          {line}" for line in lines)
    return HEAD + "".join(line.removeprefix("\\") + "\n" for line in placed)


ASK = ("- ask: How old?", "  id: ask_age")
NATIVE = "cuebook: 1\nscript: visit\nactions:\n"
IF = ("- if: age > 18", "  id: branch", "  then: [{say: one, id: one}]")
PEOPLE = "  - ask: Who?\n    into: {add_to: people, fields: [{var: name}, {var: age, type: number}]}\n"
TABLE = "forms: [{form: f, fields: [{field: rows, type: table, columns: [{field: drug}, {field: dose}]}]}]\n"
ITEMS = "{type: array, items: {type: object, properties: {sku: {type: string}}}}"
TOOL = f"tools: [{{tool: t, result: {{type: object, properties: {{items: {ITEMS}}}}}, example: {{items: []}}}}]\n"
REST = "skills: [{skill: rest, returns: [level], actions: [{set: {level: 3}}]}]\n"
SLIPS = {
    # scopes
    "scope as a key": (
        "cuebook: 1\nscript: v\ndeclare: [{var: mood, scope: global}]\nactions: [{say: Hi}]\n",
        "3:23",
        "unknown key `scope`",
        "under `globals` in an include file",
    ),
    # indentation, dashes and colons
    "key too far right": (
        script("- say: Hi.", "    id: a"),
        "8:15",
        "`id` is in column 15",
        "column 13, below `say`",
    ),
    "key too far left": (
        script(*ASK, " output: [age]"),
        "9:12",
        "wrong indentation",
        "column 13, below `id` of line 8",
    ),
    "dash too far left": (script("- say: Hi.", "  id: a", "\\        - say: Ho."), "9:9", "the dash", "column 11"),
    "dash too far right": (script("- say: Hi.", "  id: a", "  - say: Ho."), "9:13", "the dash", "column 11"),
    "outer key": (HEAD.replace("        actions", "       actions"), "6:8", "`actions`", "column 9, below `topic`"),
    "first line": (" script: visit\nphases: []\n", "1:2", "the first line is indented", "column 1"),
    "no dash": (script("- say: Hi.", "  id: a", "say: Ho."), "9:11", "a dash is missing before `say`", "`- say: Ho.`"),
    "no dash at all": (script("say: Hi.", "id: a"), "7:11", "expected a list", "`- say: Hi.`"),
    "no dash before a second": (script("- say: Hi.", "  say: Ho."), "8:13", "first in line 7", "`- say:`"),
    "phases without dashes": (
        "script: v\nphases:\n  phase: a\n  topics: []\n",
        "3:3",
        "expected a list",
        "`- phase: a`",
    ),
    "no space after a dash": (
        script("-say: Hi.", "  id: a"),
        "7:11",
        "a space is missing after the dash",
        "`- say: Hi.`",
    ),
    "no space after a later dash": (
        script("- say: Hi.", "  id: a", "-say: Ho."),
        "9:11",
        "space is missing",
        "`- say: Ho",
    ),
    "no space after a colon": (
        script("- say:Hi.", "  id: a"),
        "7:16",
        "space is missing after the colon",
        "`say: Hi.`",
    ),
    "no space after a last colon": (script("- say: Hi.", "  id:a"), "8:15", "space is missing", "`id: a`"),
    "a tab": (script("- say: Hi.", "\\\t id: a"), "8:1", "unexpected tab", "spaces"),
    "a tab after a dash": (script("-\tsay: Hi.", "  id: a"), "7:12", "unexpected tab", "spaces"),
    "an older condition": (
        NATIVE + "- say: Hi.\n  when: {variable: mood, operator: '>=', value: 3}\n",
        "5:9",
        "expected an expression",
        "`mood >= 3`",
    ),
    "a key in the column of the dash": (
        NATIVE + "  - ask: How?\n  into: mood\n",
        "5:3",
        "wrong indentation: `into`",
        "column 5, below `ask` of line 4",
    ),
    "else in the column of the dash": (
        NATIVE + "  - if: 1 > x\n    then: [say: Hi.]\n  else: [say: Ho.]\n",
        "6:3",
        "wrong indentation: `else`",
        "column 5, below `if` of line 4",
    ),
    "no colon after an action": (
        NATIVE + "  - say: Hi.\n  - ask When did you get up?\n    into: up\n",
        "5:8",
        "a colon is missing after `ask`",
        "`- ask: When did you get up?`",
    ),
    "no colon after a last action": (
        NATIVE + "  - ask When did you get up?\n",
        "4:5",
        "expected an action",
        "`ask: When did you get up?`",
    ),
    "a colon below a text that begins like an action": (
        NATIVE + "  - say: Hi.\ntags:\n  - wait and see\n  - a: b: c\n",
        "7:9",
        '": "',
        'a: "b: c"',
    ),
    "no dash before the first of several": (
        script("  say: Hi.", "  id: a", "- say: Ho."),
        "7:13",
        "a dash is missing before `say`",
        "`- say: Hi.` with the dash in column 11",
    ),
    "no dash before a mapping in braces": (
        "cuebook: 1\nscript: v\ndeclare:\n  - {var: a}\n    {var: b}\nactions: []\n",
        "5:5",
        "a dash is missing",
        "`- {var: b}`",
    ),
    "no space between a dash and a brace": (
        "cuebook: 1\nscript: v\ndeclare:\n  - {var: b}\n  -{var: a}\nactions: []\n",
        "5:3",
        "a space is missing after the dash",
        "`- {var: a}`",
    ),
    "no colon after a topic": (HEAD.replace("topic:", "topic"), "5:14", "missing after `topic`", "`- topic: welcome`"),
    "no colon before a bracket": (
        NATIVE + "  - end {reason: a, outcome: b}\n",
        "4:8",
        "missing after `end`",
        "`- end: {reason: a, outcome: b}`",
    ),
    "a bracket closed by another": (
        "cuebook: 1\nscript: v\ndeclare: [{var: a]\nactions: []\n",
        "3:11",
        "this { is never closed",
        "}",
    ),
    "a comment of another language": (
        script("- say: Hi.", "// later", "- say: Ho."),
        "8:11",
        "a comment begins with #",
        "`#`",
    ),
    "a fence of a chat": ("```yaml\n" + HEAD, "1:1", "marks code", "Remove the lines"),
    "no colon after an action without a value": (
        script("- say: Hi.", "- end", "  id: b"),
        "8:16",
        "a colon is missing after `end`",
        "`- end:`",
    ),
    "a colon after a condition": (
        script("- if: age > 18:", "  then: [say: Hi.]"),
        "7:25",
        "a second colon",
        "Remove the colon at the end",
    ),
    "full-width braces": (NATIVE + "  - ask: Age?\n    into: ｛var: age｝\n", "5:11", "full-width ｛", "plain '{'"),
    "an address with a placeholder in braces": (
        NATIVE + "  - show: {url: https://a.example/{{ x }}}\n",
        "4:17",
        "needs quotes",
        'url: "https://a.example/{{ x }}"',
    ),
    "two choices in one item": (
        NATIVE + "  - choose: Tea?\n    into: tea\n    choices:\n      - a: A\n        b: B\n",
        "8:9",
        "no `b` beside it",
        "`- b: B`",
    ),
    "a key of a choice with a dash": (
        NATIVE + "  - choose: Tea?\n    into: tea\n    choices:\n      - a: A\n      - do:\n        - say: Hi.\n",
        "8:9",
        "`do` is a key of a choice",
        "without a dash",
    ),
    "a key of an action alone": (NATIVE + "  - say: Hi.\n  - id: a\n", "5:5", "no action", "beside `id`"),
    "a topic of another phase": (
        "cuebook: 1\nscript: v\nphases:\n"
        "  - {phase: a, topics: [{topic: b, actions: [{goto: d}]}]}\n"
        "  - {phase: c, topics: [{topic: d, actions: [{say: Hi.}]}]}\n",
        "4:53",
        "unknown topic or phase d",
        "`c/d`",
    ),
    "no colon after a key": (
        NATIVE + "  - ask: How?\n    into mood\n    id: a\n",
        "5:9",
        "a colon is missing after `into`",
        "`into: mood`",
    ),
    "a wide colon after a last action": (NATIVE + "  - ask：How?\n", "4:5", "'ask：How?'", "full-width ："),
    "no space after an only dash": (NATIVE + "  -say: Hi.\n", "4:3", "expected a list", "`- say:`"),
    "names of variables as keys": (
        NATIVE + "  - say: Hi.\ndeclare:\n  hours: {type: number}\n",
        "6:3",
        "expected a list",
        "`- {var: hours, type: number}`",
    ),
    "names of forms as keys": (
        NATIVE + "  - say: Hi.\nforms:\n  refund:\n    fields: []\n",
        "6:3",
        "expected a list",
        "`- form: refund`",
    ),
    "text below at the left": (script("- say: |", "  One", "  two"), "8:13", "below line 7", "column 15"),
    "text goes on at the left": (script("- say: It is", "good.", "  id: a"), "8:11", "neither", "Indent it further"),
    "text goes on with a colon": (
        script("- say: It is", "    one of those: good."),
        "8:27",
        "continues the text above",
        "quotes",
    ),
    "text goes on as a key": (script("- say: It is", "  one of those: good."), "8:13", "unknown key", "in quotes"),
    "a list behind its key": (
        script("- say: - Hi."),
        "7:18",
        "a list cannot begin in the line of its key",
        'say: "- Hi."',
    ),
    "a mapping with dashes": (
        NATIVE + "  - repeat:\n      - max: 3\n    do: [say: Hi.]\n",
        "5:7",
        "expected a mapping",
        "without dashes",
    ),
    "a repeat with a number": (NATIVE + "  - repeat: 3\n    do: [say: Hi.]\n", "4:13", "`3` always", "{max: 3}"),
    "two names in a text": (NATIVE + "  - ask: How?\n    into: a, b\n", "5:11", "'a, b' is not", "`[a, b]`"),
    # quotes
    "a quote left open": (script('- say: "Hi.', "  id: a", '- say: "Ho."'), "7:18", "never closed", "Close the quote"),
    "a last quote left open": (
        script("- say: 'Hi.", "  id: a"),
        "7:18",
        "this quote is never closed",
        "Close the quote",
    ),
    "a quote left open in braces": (script('- {say: "Hi., id: a}', '- {say: "Ho."}'), "7:19", "never closed", "Close"),
    "quotes in quotes": (script('- say: "She said "hi" to me."'), "7:28", "ends the text", "Put single quotes"),
    "an apostrophe in quotes": (script("- say: 'It's fine.'"), "7:21", "ends the text", "Put double quotes"),
    "a backslash": (script(r'- say: "C:\docs"'), "7:21", "a backslash", "single quotes"),
    "a colon in a text": (script("- say: One thing: breathe."), "7:27", '": "', 'say: "One thing: breathe."'),
    "a colon in braces": (script("- {say: Good: to hear}"), "7:19", "a colon inside", 'say: "Good: to hear"'),
    "a placeholder in braces": (script("- {say: Hi {{ name }}, id: a}"), "7:19", "{{ }}", 'say: "Hi {{ name }}"'),
    "a placeholder first": (script("- {say: {{ name }} hi, id: a}"), "7:20", "unquoted", "Put quotes"),
    "a comma in braces": (script("- {say: Well, then, id: a}"), "7:25", "`then`", "A comma inside { }"),
    "two reminders at once": (
        NATIVE + "  - ask: A?\n    into: a\n    remind: [{after: 1 hour, say: x}, {after: 1 hour, say: y}]\n",
        "6:39",
        "at the same moment",
        "change a moment",
    ),
    "a reminder without words": (
        NATIVE + "  - ask: A?\n    into: a\n    remind: [{after: 1 hour}]\n",
        "6:14",
        "a reminder needs",
        "Add `say:`",
    ),
    "a question that goes on after it expires": (
        NATIVE + "  - ask: A?\n    into: a\n    expire: {after: 1 hour, then: continue}\n",
        "6:35",
        "cannot continue",
        "Write `skip`",
    ),
    "an answer that no text can give": (
        NATIVE + "  - ask: A?\n    into: {var: a, max: 0}\n",
        "5:25",
        "allows no character",
        "Relax the rule",
    ),
    "a key of no field": (
        NATIVE + PEOPLE.replace("people, ", "people, key: nme, "),
        "5:33",
        "no field of these records",
        "Did you mean `name`?",
    ),
    "fields of a number": (
        "cuebook: 1\nscript: v\ntools: [{tool: t, result: {type: number}, example: 1}]\n"
        "actions: [{tool: t, into: {x: field}}, {say: '{{ x }}'}]\n",
        "4:28",
        "has no fields",
        "Write `into: x`",
    ),
    "a name without its value": (script("- set: mood"), "7:18", "a mapping of names to values", "Write `{mood: …}`"),
    "an unknown key without a value": (script("- say: Well\n            zzzz:"), "8:13", "`zzzz`", "Use one of"),
    "an empty condition": (script("- if:\n            then: [{say: Hi}]"), "7:16", "never holds", "Write a condition"),
    "curly quotes": (script("- say: “One: two”"), "7:22", '": "', "curly quotes"),
    "an @": (script("- say: @ana, hello"), "7:18", "starts with @", '"@ana, hello"'),
    "a %": (script("- say: %d people"), "7:18", "starts with %", '"%d people"'),
    "stars": (script("- say: *smiles* Hi"), "7:18", "starts with *", '"*smiles* Hi"'),
    "a question mark": (script("- say: ? what"), "7:18", "starts with ?", '"? what"'),
    "an exclamation mark": (script("- say: !important news"), "7:18", "!important", "starts with !"),
    # brackets
    "a brace left open": (
        script("- {say: Hi, id: a", "- {say: Ho, id: b}"),
        "7:13",
        "this { is never closed",
        "Write }",
    ),
    "a comment in braces": (script("- set: {x: =a if a else 2 # no, y: 3}"), "7:37", "begins a comment", "in quotes"),
    "a bracket left open": (
        script("- choose: c", "  choices: [a, b", "- say: Ho."),
        "8:22",
        "this [ is never",
        "Write ]",
    ),
    "a brace too many": (script("- {say: Hi, id: a}}"), "7:29", "this } has no opening bracket", "Remove it"),
    "a condition in braces": (script("- say: Hi.", "  when: {x == 1}"), "8:19", "an expression", "without { }"),
    "a pattern in braces": (
        NATIVE + "  - ask: Code?\n    into: {var: code, pattern: [0-9]{4,8}}\n",
        "5:32",
        "brackets inside",
        'pattern: "[0-9]{4,8}"',
    ),
    "brackets in a list": (
        NATIVE + "  - choose: a?\n    choices: [a: A [first], b: B]\n",
        "5:18",
        "brackets inside",
        'a: "A [first]"',
    ),
    # other signs and blanks
    "no-break space before": (script("- say: Hi.", "\u00a0\u00a0id: a"), "8:11", "a no-break space", "plain space"),
    "no-break space after a colon": (script("- say:\u00a0Hi.", "  id: a"), "7:17", "a no-break space", "plain space"),
    "no-break space after a dash": (script("-\u00a0say: Hi.", "  id: a"), "7:12", "a no-break space", "plain space"),
    "an invisible character": (
        script("- say: Hi.", "  \u200bid: a"),
        "8:13",
        "unknown key",
        "an invisible character",
    ),
    "an invisible character in an id": (
        script("- say: Hi.", "  id: \ufeffa"),
        "8:17",
        "not a valid id",
        "an invisible character",
    ),
    "a bullet": (script("• say: Hi.", "  id: a"), "7:11", "cannot start with •", "plain -"),
    "a long dash": (script("— say: Hi.", "  id: a"), "7:11", "cannot start with —", "plain -"),
    "a wide dash": (script("－ say: 你好", "  id: a"), "7:11", "cannot start with －", "plain -"),
    "a wide colon": (script("- say：你好", "  id: a"), "7:16", "full-width ：", "plain"),
    "a wide comma": (script("- {say: 你好，id: a}"), "7:21", "full-width ，", "plain"),
    "a wide comma behind a placeholder": (
        script("- say: {name}，hello"),
        "7:18",
        "starts with {",
        'say: "{name}，hello"',
    ),
    "a wide blank": (script("- say: 你好", "　　id: a"), "8:12", "full-width", "plain"),
    "wide brackets": (script(*ASK, "  output: 【age】"), "9:21", "expected a list", "[ and ]"),
    "wide braces": (
        script(*ASK, "  output: [age]", "- say: 你 ｛｛ age ｝｝"),
        "10:18",
        "is shown unchanged",
        "{{ age }}",
    ),
    "a wide sign": (script("- say: 你好", "  when: 年龄 ＞ 18"), "8:19", "＞", "plain operators"),
    # words
    "tell": (script("- tell: Hi."), "7:13", "`tell` is not an action", "Did you mean `say`?"),
    "print": (script("- print: Hi."), "7:13", "`print` is not an action", "Did you mean `say`?"),
    "question": (script("- question: How are you?"), "7:13", "is not an action", "Did you mean `ask`?"),
    "说": (script("- 说: 你好"), "7:13", "`说` is not an action", "Did you mean `say`?"),
    "如果": (script("- 如果: 年龄 > 18"), "7:13", "is not an action", "Did you mean `if`?"),
    "jump": (script("- go to: hello/welcome"), "7:13", "is not an action", "Did you mean `goto`?"),
    "validate beside the value": (
        script("- ask: How old?", "  output: [{get: age}]", "  validate: age > 3"),
        "9:13",
        "unknown key `validate`",
        "`output: [{get: NAME, validate: …}]`",
    ),
    "options": (script("- choose: mood", "  options: [a]"), "8:13", "unknown key", "Did you mean `choices`?"),
    "elif without a list": (script(*IF, "  elif: age > 12"), "10:19", "a list of branches", "`elif: [{if:"),
    "else in elif": (
        script(*IF, "  elif: [{if: age > 1, then: [], else: []}]"),
        "10:20",
        "a branch without `else`",
        "below the list",
    ),
    "elif with a dash": (script(*IF, "- elif: age > 12"), "10:13", "`elif` is not an action", "`elif: [{if: …"),
    "else if": (script(*IF, "  else if: age > 12"), "10:13", "unknown key `else if`", "`elif: [{if: …"),
    "else with a dash": (script(*IF, "- else: [{say: two}]"), "10:13", "`else` is not an action", "without a dash"),
    "language": (f"language: en\n{script('- say: Hi.')}", "1:1", "`language`", "Did you mean `locale`?"),
    "actions at the top": ("script: v\nphases: []\nactions: []\n", "3:1", "`actions`", "topics in a phase"),
    "topics at the top": ("script: v\nphases: []\ntopics: []\n", "3:1", "`topics`", "Write topics in a phase"),
    "max: lots": (script(*ASK, "  output: [{get: age, type: number, max: lots}]"), "9:52", "'lots'", "`max: 10`"),
    "a limit in words": (script(*ASK, "  max_rounds: three"), "9:25", "a whole number", "in digits, such as 3"),
    "a type of programmers": (script(*ASK, "  output: [{get: age, type: integer}]"), "9:39", "'integer'", "`number`"),
    "action": (NATIVE.replace("actions", "action") + "  - say: Hi.\n", "3:1", "`action`", "`actions`"),
    "Actions": (NATIVE.replace("actions", "Actions") + "  - say: Hi.\n", "3:1", "`Actions`", "`actions`"),
    "cuebok": (NATIVE.replace("cuebook", "cuebok") + "  - say: Hi.\n", "1:1", "`cuebok`", "`cuebook`"),
    "Script": (NATIVE.replace("script", "Script") + "  - say: Hi.\n", "1:1", "no `script:`", "instead of `Script`"),
    "a quoted version": (NATIVE.replace("1", "'1'") + "  - say: Hi.\n", "1:10", "`cuebook: 1`", "without quotes"),
    "an action in a phase": (
        "cuebook: 1\nscript: v\nphases: [{phase: a, actions: [say: x]}]\n",
        "3:21",
        "unknown key `actions`",
        "Write actions in a topic",
    ),
    "an include file": ("cuebook: 1\nglobals: [{var: age}]\n", "1:1", "an include file", "lists this file in `use`"),
    "a condition before the colon": (NATIVE + "  - if x > 3:\n", "4:5", "`if x > 3`", "`if: x > 3`"),
    "an action beside a condition": (NATIVE + "  - if: 1 > x\n    say: Hi.\n", "5:5", "one item", "below `then:`"),
    "a condition beside an action": (NATIVE + "  - say: Hi.\n    if: 1 > x\n", "5:5", "one item", "as `when`"),
    "an action without a colon": (NATIVE + "  - end\n", "4:5", "found 'end'", "`end:`"),
    "a parameter as a word": (
        f"{NATIVE}  - say: Hi.\nskills: [{{skill: s, params: [age], actions: [say: x]}}]\n",
        "5:30",
        "a mapping with `var`",
        "{var: 'age'}",
    ),
    "a choice without choices": (
        NATIVE + "  - ask: How?\n    into: {var: mood, type: choice}\n",
        "5:29",
        "needs `choices`",
        "Add `choices: [a, b]`",
    ),
    "an event of two words": (NATIVE + "  - emit: hand over\n", "4:11", "name of an event", "without blanks"),
    "an open condition": (NATIVE + '  - say: "{% if x %}Hi."\n', "4:10", "not closed", "{% endif %}"),
    "an open placeholder": (NATIVE + '  - say: "{{ x"\n', "4:10", "not closed", "Close {{ with }}"),
    "an open condition's braces": (
        NATIVE + '  - say: "{% if x }Hi.{% endif %}"\n',
        "4:10",
        "not closed",
        "Close {% with %}",
    ),
    "a filter": (NATIVE + '  - say: "{{ x | titel }}"\n', "4:10", "'titel'", "Did you mean `title`?"),
    "a filter in a condition": (
        NATIVE + '  - say: "{% if x | titel %}a{% endif %}"\n',
        "4:10",
        "'titel'",
        "Did you mean `title`?",
    ),
    "a test in a condition": (
        NATIVE + '  - say: "{% if x is defind %}a{% endif %}"\n',
        "4:10",
        "'defind'",
        "`defined`",
    ),
    "the number of an item": (
        NATIVE + "  - foreach: range(3) as x\n    do: [say: '{{ loop.index }}. {{ x }}']\n",
        "5:15",
        "only within {% for %}",
        "{n: =n + 1}",
    ),
    "a test": (NATIVE + '  - say: "{{ x is defind }}"\n', "4:10", "'defind'", "`defined`"),
    "else if in a text": (
        NATIVE + '  - say: "{% if x %}a{% else if y %}b{% endif %}"\n',
        "4:10",
        "'if'",
        "Write {% elif … %}",
    ),
    "of in a loop": (NATIVE + '  - say: "{% for x of y %}a{% endfor %}"\n', "4:10", "'of'", "Write {% for … in … %}"),
    "an unknown tag": (NATIVE + '  - say: "{% fi x %}a{% endif %}"\n', "4:10", "'fi'", "Use {% if … %}"),
    "|| in a text": (NATIVE + '  - say: "{{ x || 1 }}"\n', "4:10", "'|'", "`or` instead of ||"),
    "= in a text": (NATIVE + '  - say: "{% if x = 1 %}a{% endif %}"\n', "4:10", "'='", "Compare with =="),
    "= before a name in a text": (NATIVE + '  - say: "{{ =x }}"\n', "4:10", "'='", "Remove the `=`."),
    "= in an older file": (
        script("- say: Hi.", "  id: hi", "- {set: {n: =n + 1}, id: more}"),
        "9:23",
        "unexpected '='",
        "begin the file with `cuebook: 1`",
    ),
    "; in place of a first colon": ("cuebook; 1\nscript: v\n", "1:8", "missing after `cuebook`", "`cuebook: 1`"),
    "; in place of a colon in braces": (NATIVE + "  - {ask: A?, into; a}\n", "4:15", "`into; a`", "`into: a`"),
    "= in place of a colon in braces": (NATIVE + "  - {say: A, id = a}\n", "4:14", "`id = a`", "`id: a`"),
    "no space after a colon in braces": (NATIVE + "  - {say:Hi, id: a}\n", "4:6", "`say:Hi`", "`say: Hi`"),
    "= in place of a colon below a key": (
        NATIVE + "  - ask: A?\n    into:\n      var = a\n      type: text\n",
        "6:10",
        "missing after `var`",
        "`var: a`",
    ),
    "= in place of a colon after a variable": (
        NATIVE + "  - {set: {n=3}}\n",
        "4:15",
        "'n=3' is not a valid",
        "colon and a space after `n`",
    ),
    "no comma between records": (
        NATIVE.replace("actions", "declare: [{var: a, value: [\n  {b: 1}\n  {b: 2}]}]\nactions"),
        "4:8",
        "a comma is missing",
        "Write a comma",
    ),
    "no comma between choices": (
        NATIVE + "  - {choose: A?, into: a, choices: [{key: b, text: B} {key: c, text: C}]}\n",
        "4:53",
        "a comma is missing",
        "Write a comma",
    ),
    "no closing brace before the next record": (
        NATIVE.replace("actions", "declare: [{var: a, value: [\n  {b: 1,\n  {b: 2}]}]\nactions"),
        "4:3",
        "this { is never closed",
        "Write }",
    ),
    "is in place of ==": (NATIVE + "  - {say: Hi, when: age is not 12}\n", "4:21", "'integer'", "Write `age != 12`."),
    "a time without quotes": (NATIVE + "  - {say: Hi, when: at > 9:00}\n", "4:21", "before ':'", "'09:00'"),
    "a postcode without quotes": (NATIVE + "  - {say: Hi, when: zip == 01234}\n", "4:21", "'1234'", "'01234'"),
    "yes beside a similar name": (
        NATIVE + "  - {ask: A?, into: yes_no}\n  - {say: Hi, when: yes_no == yes}\n",
        "5:21",
        "nothing sets `yes`",
        "Write `true`, or 'yes' in quotes",
    ),
    "a decimal comma in a declaration": (
        NATIVE.replace("actions", "declare: [{var: n, value: 1,5}]\nactions") + "  - {say: Hi}\n",
        "3:29",
        "key `5`",
        "Write a point",
    ),
    "a decimal comma in an assignment": (NATIVE + "  - {set: {n: 1,5}}\n", "4:18", "'5' is not", "Write a point"),
    "a list in place of a mapping": (
        NATIVE.replace("actions", "migrations: [{a: b}]\nactions") + "  - {say: Hi}\n",
        "3:13",
        "expected a mapping with keys such as `phases`",
        "Write the keys without dashes.",
    ),
    "small letters in place of capitals": (
        NATIVE.replace("actions", "roles: [{role: kim, type: ai}]\nactions") + "  - {say: Hi}\n",
        "3:27",
        "'ai' is not allowed",
        "Did you mean `AI`?",
    ),
    "a misspelt key of a branch": (
        NATIVE + "  - if: x > 1\n    then: [say: A]\n    elif:\n      - if: x > 0\n        thne: [say: B]\n",
        "8:9",
        "expected `if`, `then` or `id`, found 'thne'",
        "Did you mean `then`?",
    ),
    "no dash before a first item in the same column": (
        "cuebook: 1\nscript: v\nactions:\n  {say: A}\n  - {say: B}\n",
        "4:3",
        "a dash is missing before `say`",
        "Write `- {say: A}` with the dash in column 3.",
    ),
    "full-width digits": (NATIVE + "  - {say: Hi, when: n >= ３}\n", "4:21", "Invalid character", "plain digits"),
    "a full-width colon after a variable": (
        NATIVE + "  - {set: {n： 3}}\n",
        "4:16",
        "'n： 3' is not a valid",
        "colon and a space after `n`",
    ),
    "a blank in a name": (NATIVE + '  - say: "{{ my answer }}"\n', "4:10", "'answer'", "{{ my_answer }}"),
    "=>": (NATIVE + "  - say: Hi.\n    when: score => 8\n", "5:11", "too early", "Write >= instead of =>"),
    "===": (NATIVE + "  - say: Hi.\n    when: score === 8\n", "5:11", "'='", "Write == instead of ==="),
    "!==": (NATIVE + "  - say: Hi.\n    when: score !== 8\n", "5:11", "'='", "Write != instead of !=="),
    "??": (NATIVE + '  - say: "{{ score ?? 8 }}"\n', "4:10", "'?'", "Write `NAME | default(VALUE)`"),
    "? :": (NATIVE + "  - say: \"{{ score > 8 ? 'a' : 'b' }}\"\n", "4:10", "'?'", "`A if CONDITION else B`"),
    "=<": (NATIVE + "  - say: Hi.\n    when: score =< 8\n", "5:11", "too early", "Write <= instead of =<"),
    "a function": (NATIVE + "  - say: Hi.\n    when: visit('a') > 1\n", "5:11", "no function `visit`", "`visits`"),
    "a filter as a function": (
        NATIVE + "  - say: '{{ upper(x) }}'\n",
        "4:10",
        "no function `upper`",
        "`VALUE | upper`",
    ),
    "a mapping in an expression": (
        NATIVE + '  - set: {person: ={"name": 1, "age": 2}, other: 3}\n',
        "4:19",
        "a colon inside",
        "person: \"={'name': 1, 'age': 2}\"",
    ),
    "a secret outside of headers": (
        NATIVE + "  - say: \"{{ secret('KEY') }}\"\n",
        "4:10",
        "no function `secret`",
        "headers",
    ),
    "no choices": (NATIVE + "  - {choose: Which?, into: way, choices: []}\n", "4:42", "`choices` is empty", "List"),
    "an unknown function": (NATIVE + "  - say: '{{ quux(x) }}'\n", "4:10", "no function `quux`", "`days`"),
    "cuebook: 1 forgotten": (
        "script: v\nactions:\n  - ask: How?\n    into: {var: age, type: number}\n  - set: {age: =age + 1}\n",
        "1:1",
        "`cuebook` is missing",
        "`cuebook: 1` as the first line",
    ),
    "a key of wait in its mapping": (
        NATIVE + "  - wait: {after: 1 day, on_message: resume}\n",
        "4:26",
        "`on_message`",
        "beside `wait`",
    ),
    "a key of an action with a dash": (NATIVE + "  - into: x\n", "4:5", "`into` is not", "a key of an action"),
    "an unknown action": (NATIVE + "  - blorp: x\n", "4:5", "`blorp` is not", "and 5 more"),
    "set with a sign": (NATIVE + "  - set: x = y + 1\n", "4:10", "expected a mapping", "{x: =y + 1}"),
    "set with a number": (NATIVE + "  - set: x = 3\n", "4:10", "expected a mapping", "`{x: 3}`"),
    "expire as a text": (
        NATIVE + "  - ask: How?\n    into: x\n    expire: 2 days\n",
        "6:13",
        "expected a mapping",
        "{after: 2 days}",
    ),
    "quiet hours as a text": (
        NATIVE + "  - say: Hi.\nquiet_hours: 21:00 - 8:00\n",
        "5:14",
        "expected a mapping",
        "`{from: 21:00, to: 8:00}`",
    ),
    "no as a boolean": (
        NATIVE + "  - say: Hi.\ndeclare: [{var: a, type: boolean, value: no}]\n",
        "5:42",
        "expected boolean",
        "Write true or false.",
    ),
    "a timeout without a unit": (
        NATIVE + "  - tool: t\ntools: [{tool: t, timeout: 5}]\n",
        "5:28",
        "not a time with its unit",
        "such as `5 s`",
    ),
    "a type of variables in a tool": (
        NATIVE + "  - tool: t\ntools: [{tool: t, params: {a: {type: text}}}]\n",
        "5:27",
        "it has no type 'text'",
        "`string`",
    ),
    "a parameter of a tool as a word": (
        NATIVE + "  - tool: t\ntools: [{tool: t, params: {a: string}}]\n",
        "5:31",
        "expected a mapping",
        "`{type: string}`",
    ),
    "a field in a foreach": (
        f"{NATIVE}{PEOPLE}  - foreach: people as p\n    do: [say: '{{{{ p.nmae }}}}']\n",
        "7:15",
        "nothing gives a record the member `nmae`",
        "Did you mean `name`?",
    ),
    "a field in a loop of a text": (
        f"{NATIVE}{PEOPLE}  - say: '{{% for p in people %}}{{{{ p.nmae }}}}{{% endfor %}}'\n",
        "6:10",
        "nothing gives a record the member `nmae`",
        "Did you mean `name`?",
    ),
    "a field in a list of choices": (
        f"{NATIVE}{PEOPLE}  - choose: Who?\n    into: a\n    choices: [{{each: people as p, key: =p.nmae, text: x}}]\n",
        "8:40",
        "nothing gives a record the member `nmae`",
        "Did you mean `name`?",
    ),
    "a member of a list": (
        f"{NATIVE}{PEOPLE}  - say: '{{{{ people[0].agee }}}}'\n",
        "6:10",
        "nothing gives a record the member `agee`",
        "Did you mean `age`?",
    ),
    "a member of a record": (
        NATIVE + "  - set: {home: {street: x}}\n  - say: '{{ home.strete }}'\n",
        "5:10",
        "nothing gives a record the member `strete`",
        "Did you mean `street`?",
    ),
    "a field of a table": (
        f"{NATIVE}  - form: f\n  - foreach: rows as r\n    do: [say: '{{{{ r.does }}}}']\n{TABLE}",
        "6:15",
        "nothing gives a record the member `does`",
        "Did you mean `dose`?",
    ),
    "a column in a computed field": (
        f"{NATIVE}  - form: f\n{TABLE[:-4]}, {{field: n, computed: \"rows | map(attribute='does') | list\"}}]}}]\n",
        "5:118",
        "nothing gives a record the member `does`",
        "Did you mean `dose`?",
    ),
    "a field of a tool's result": (
        f"{NATIVE}  - tool: t\n    into: {{things: items}}\n  - say: '{{{{ things[0].skuu }}}}'\n{TOOL}",
        "6:10",
        "nothing gives a record the member `skuu`",
        "Did you mean `sku`?",
    ),
    "a result of a skill": (
        f"{NATIVE}  - call: rest\n    into: all\n  - say: '{{{{ all.levl }}}}'\n{REST}",
        "6:10",
        "nothing gives a record the member `levl`",
        "Did you mean `level`?",
    ),
    "contains": (NATIVE + "  - say: Hi.\n    when: x contains tea\n", "5:11", "'contains'", "`'tea' in x`"),
    "does not contain": (NATIVE + "  - say: Hi.\n    when: x does not contain 'tea'\n", "5:11", "", "`'tea' not in x`"),
    "the data of an event": (
        NATIVE + "  - emit: paid\n    data: {n: 1}\n",
        "5:5",
        "unknown key `data`",
        "`emit: {event: …, data: …}`",
    ),
    "the outcome of an end": (
        NATIVE + "  - {end: done, outcome: refused}\n",
        "4:17",
        "unknown key `outcome`",
        "`end: {reason: …, outcome: …}`",
    ),
    "a date that may be missing": (
        NATIVE + "  - {ask: A?, into: day, expire: {after: 1 day, then: skip}}\n  - wait: {until: =day}\n",
        "5:19",
        "`day` may be unset here",
        "Set it on every path",
    ),
    "a date of a reminder": (
        NATIVE + "  - ask: A?\n    into: a\n    remind: [{until: =dya, say: x}]\n",
        "6:22",
        "nothing sets `dya`",
        "Declare it",
    ),
    "a message during a wait": (NATIVE + "  - {wait: 2 days, on_message: ignore}\n", "4:32", "ignore", "`hold`"),
    "a choice of a form without choices": (
        NATIVE + "  - form: f\nforms: [{form: f, fields: [{field: sex, type: choice}]}]\n",
        "5:28",
        "`type: choice` needs `choices`",
        "Add `choices: [a, b]`",
    ),
    "a pattern of JavaScript": (
        NATIVE + "  - {ask: Code?, into: {var: a, pattern: '/^[0-9]{5}$/'}}\n",
        "4:42",
        "only an answer between slashes matches",
        "`^[0-9]{5}$`",
    ),
    "a pattern with an open brace": (
        NATIVE + "  - {ask: Code?, into: {var: a, pattern: '[0-9]{5'}}\n",
        "4:42",
        "`{5` has no `}`",
        "`[0-9]{5}`",
    ),
    "choices as a text": (
        NATIVE + "  - ask: Which?\n    into: {var: a, choices: 'red, green'}\n",
        "5:29",
        "`red, green` is one item",
        "`[red, green]`",
    ),
    "null in an expression": (
        NATIVE + "  - {ask: A?, into: a}\n  - {say: b, when: a == null}\n",
        "5:20",
        "nothing sets `null`",
        "Write `none`",
    ),
    "a test for emptiness": (
        NATIVE + "  - {ask: A?, into: a}\n  - {say: b, when: a is empty}\n",
        "5:20",
        "No test named 'empty'",
        "`not NAME`",
    ),
    "a range in words": (
        NATIVE + "  - {ask: A?, into: a}\n  - {say: b, when: a between 3 and 5}\n",
        "5:20",
        "before 'between'",
        "`3 <= a <= 5`",
    ),
    "an operator in capitals": (
        NATIVE + "  - {ask: A?, into: a}\n  - {say: b, when: a > 1 AND a < 3}\n",
        "5:20",
        "before 'AND'",
        "small letters",
    ),
    "a date without quotes": (
        NATIVE + "  - {say: b, when: today > 2026-01-31}\n",
        "4:20",
        "ends too early",
        "'2026-01-31'",
    ),
    "a number increased by two signs": (
        NATIVE + "  - {set: {n: 1}}\n  - {set: {n: =n++}}\n",
        "5:15",
        "something is missing",
        "`n + 1`",
    ),
    "a number increased by another operator": (
        NATIVE + "  - {set: {n: 1}}\n  - {set: {n: += 1}}\n",
        "5:15",
        "changes nothing",
        "`=n + 1`",
    ),
    "a parenthesis that is not closed": (
        NATIVE + '  - {ask: A?, into: a}\n  - {say: b, when: a in ("x" }\n',
        "5:20",
        ") is missing at the end",
        "`)`",
    ),
    "a filter as a function of another name": (
        NATIVE + "  - {ask: A?, into: a}\n  - {say: b, when: len(a) > 3}\n",
        "5:20",
        "no function `len`",
        "`VALUE | length`",
    ),
    "a full-width bar": (
        NATIVE + '  - {ask: A?, into: a}\n  - say: "{{ a｜upper }}"\n',
        "5:10",
        "unexpected char",
        "Write plain operators",
    ),
    "a default in single braces": (
        NATIVE + "  - {ask: A?, into: a}\n  - say: \"Hi {a || 'you'}\"\n",
        "5:10",
        "is shown unchanged",
        "{{ a or 'you' }}",
    ),
    "a statement in a value": (
        NATIVE + '  - {set: {a: "{% if 1 > 0 %}b{% endif %}"}}\n',
        "4:15",
        "a text without {% %}",
        "an expression such as",
    ),
    "a test for null": (
        NATIVE + "  - {ask: A?, into: a}\n  - {say: b, when: a is null}\n",
        "5:20",
        "No test named 'null'",
        "`none`",
    ),
    "a test for a value": (
        NATIVE + "  - {ask: A?, into: a}\n  - {say: b, when: a is set}\n",
        "5:20",
        "No test named 'set'",
        "`defined`",
    ),
    "a text as a mapping": (
        NATIVE + "  - say: {text: Hello, tone: warm}\n",
        "4:10",
        "expected a text, found a mapping",
        "Write the text itself",
    ),
    "a question as a mapping": (
        NATIVE + "  - ask:\n      text: How are you?\n      into: a\n",
        "5:7",
        "expected a text, found a mapping",
        "Write the text itself",
    ),
    "a placeholder of JavaScript": (
        NATIVE + "  - {ask: A?, into: a}\n  - say: 'Hello ${a}'\n",
        "5:10",
        "${a} is shown unchanged",
        "{{ a }}",
    ),
    "a method of JavaScript": (
        NATIVE + "  - {ask: A?, into: a}\n  - say: '{{ a.toUpperCase() }}'\n",
        "5:10",
        "no value has the member `toUpperCase`",
        "`NAME.upper()`",
    ),
    "a member of a difference": (
        NATIVE + "  - {ask: A?, into: {var: day, type: date}}\n  - say: 'In {{ (day - today).days }} days'\n",
        "5:10",
        "no value has the member `days`",
        "`DATE - DATE`",
    ),
    "a key of the trigger beside it": (
        NATIVE + "  - say: a\ninterrupts: [{on: [stop], match: whole, then: end}]\n",
        "5:27",
        "unknown key `match`",
        "`on: {keywords: …, match: …}`",
    ),
    "a member of a stored date": (
        NATIVE + "  - {ask: A?, into: {var: born, type: date}}\n  - say: 'In {{ born.year }}'\n",
        "5:10",
        "`born` is a date, which has no member `year`",
        "`born[:4]`",
    ),
    "the size of a list": (
        NATIVE + "  - {ask: A?, into: {var: pets, type: list}}\n  - {say: b, when: pets.size > 2}\n",
        "5:20",
        "`pets` is a list, which has no member `size`",
        "`pets | length`",
    ),
    "a method of Python": (
        NATIVE + "  - {ask: A?, into: {var: a, type: list}}\n  - say: |\n      You said\n      {{ ', '.join(a) }}\n",
        "7:1",
        "no value has the member `join`",
        "`LIST | join(', ')`",
    ),
    "yes/no": (script(*ASK, "  output: [{get: age, type: yes/no}]"), "9:39", "'yes/no'", "`boolean`"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_named_where_it_is_with_its_cure(slip) -> None:
    text, at, message, fix = SLIPS[slip]
    problems = read_script(Source(text)).problems
    problem = next((each for each in problems if message in each.message), problems[0])
    assert (f"{problem.line}:{problem.column}", fix in problem.fix) == (at, True), problem
    assert message in problem.message, problem
    assert JARGON.search(f"{problem.message} {problem.fix}") is None


@pytest.mark.parametrize(
    "line",
    [
        "- say: Open: Monday to Friday",
        "- say: Note: this # is important",
        "- ask：How?",
        "-say: Hi.",
        "- set: {x: {{ mood }}}",
        "- {choose: a?, choices: [a: A [first], b: B]}",
    ],
)
def test_slips_beside_keys_of_stages_are_errors_as_elsewhere(line) -> None:
    stages_keys = "roles: [{role: r}]\nrules: [{rule: a, say: x}]\nforms: [{form: f, fields: []}]\n"
    alone = read_script(Source(f"{NATIVE}  {line}\n")).errors
    beside = read_script(Source(f"{NATIVE}  {line}\n{stages_keys}")).problems
    assert alone
    assert set(alone) <= set(beside)
    assert "SYNTAX_ERROR" not in {problem.code for problem in beside if problem.severity == "warning"}


ONE_PROBLEM = {
    "a misspelt key of a declaration": "cuebook: 1\nscript: v\ndeclare: [{vra: x}]\nactions: [{ask: A?, into: x}]\n",
    "a misspelt key of an answer": NATIVE + '  - {ask: A?, inot: x}\n  - say: "{{ x }}"\n',
    "a misspelt action": NATIVE + '  - sett: {x: 1}\n  - say: "{{ x }}"\n',
    "a misspelt list of topics": "cuebook: 1\nscript: v\nphases:\n"
    "  - {phase: a, topics: [{topic: b, actions: [{goto: c/d}]}]}\n"
    "  - {phase: c, topic: [{topic: d, actions: [{say: Hi.}]}]}\n",
    "a misspelt list of skills": NATIVE + "  - call: rest\n" + REST.replace("skills", "skils"),
    "a misspelt action with a form": NATIVE + "  - fom: f\n" + TABLE,
    "actions without a topic": "cuebook: 1\nscript: v\nphases: [{phase: a, actions: [{say: Hi.}]}]\n",
    "a key without a colon": "cuebook: 1\nscript: v\ndeclare: [{var x}]\nactions: [{ask: A?, into: x}]\n",
    "a topic without a dash": "cuebook: 1\nscript: v\nphases:\n  - phase: a\n    topics:\n"
    "      - topic: b\n        actions: [{goto: c}]\n        topic: c\n        actions: [{say: Hi.}]\n",
    "a misspelt key of a choice": NATIVE + "  - {choose: A?, into: a, choices: [{kye: a, text: A}]}\n",
    "a misspelt key of a call": NATIVE + "  - {call: rest, wiht: {x: 1}}\n"
    "skills: [{skill: rest, params: [{var: x}], actions: [{say: Hi.}]}]\n",
    "a misspelt parameter": NATIVE + "  - {call: rest, with: {minuts: 1}}\n"
    "skills: [{skill: rest, params: [{var: minutes}], actions: [{say: Hi.}]}]\n",
    "a misspelt list of parameters": NATIVE + "  - {call: rest, with: {x: 1}}\n"
    "skills: [{skill: rest, parmas: [{var: x}], actions: [{say: Hi.}]}]\n",
    "a misspelt key of a reminder": NATIVE + "  - {ask: A?, into: a, remind: [{after: 1 day, sya: Hi.}]}\n",
    "a misspelt list of rules": NATIVE + "  - say: Hi.\n"
    "detectors: [{detector: d, ruels: [{words: [x]}], do: [{say: Oh.}], examples: [{messages: [x], label: d}]}]\n",
    "a misspelt rule": NATIVE + "  - say: Hi.\n"
    "detectors: [{detector: d, rules: [{wrods: [x]}], do: [{say: Oh.}], examples: [{messages: [x], label: d}]}]\n",
    "a misspelt list of choices": NATIVE + "  - form: f\n"
    "forms: [{form: f, fields: [{field: a, type: choice, chocies: [b, c]}]}]\n",
    "a misspelt action that sets a variable like another": NATIVE
    + "  - {chooes: A?, into: stage, choices: [a, b]}\n  - {ask: B?, into: step}\n"
    + "  - {say: 'Hi {{ step }}', when: stage == 'a'}\n",
    "a misspelt arm": NATIVE.replace("actions", "experiments: [{experiment: e, arms: [warm, plain]}]\nactions")
    + "  - {experiment: e, arms: {wram: [{say: A}], plain: [{say: B}]}}\n",
    "arms with a full-width comma": NATIVE.replace("actions", "experiments: [{experiment: e, arms: [a， b]}]\nactions")
    + "  - {experiment: e, arms: {a: [{say: A}], b: [{say: B}]}}\n",
    "a parameter without a colon": NATIVE + "  - {call: rest, with: {x 1}}\n"
    "skills: [{skill: rest, params: [{var: x}], actions: [{say: 'Hi {{ x }}'}]}]\n",
    "a declaration with a semicolon": "cuebook: 1\nscript: v\ndeclare: [{var; x}]\nactions: [{ask: A?, into: x}]\n",
    "a misspelt time zone": NATIVE.replace("actions", "tiemzone: UTC\nactions") + '  - {wait: {at: "9:00"}}\n',
    "a file that does not exist": "cuebook: 1\nscript: v\nuse: [skills.yaml]\nactions: [{call: rest}]\n",
}


@pytest.mark.parametrize("slip", ONE_PROBLEM)
def test_a_slip_causes_no_further_problem(slip) -> None:
    (problem,) = read_script(Source(ONE_PROBLEM[slip])).problems
    assert problem.severity == "error"


@pytest.mark.slow
def test_no_slip_of_one_character_is_answered_with_jargon() -> None:
    text = script(*SMALL.strip().splitlines())
    assert not [problem for problem in read_script(Source(text)).problems if problem.severity == "error"]
    lines = len(text.splitlines())
    found = set()
    for at in range(len(HEAD) - 20, len(text)):
        for put in ("", '"', "'", "{", "]", ":", "- ", "\t", "\u00a0", "：", "*", "\n", "  "):
            slipped = text[:at] + put + text[at + (put == "") :]
            for problem in read_script(Source(slipped)).problems:
                if problem.code == "SYNTAX_ERROR":
                    assert JARGON.search(f"{problem.message} {problem.fix}") is None, (slipped, problem)
                    assert 1 <= problem.line <= lines + 1
                    assert problem.column <= len(slipped.splitlines()[problem.line - 1]) + 1, (slipped, problem)
                    found.add(re.sub(r"\d+|`.*?`", "", problem.message))
    assert len(found) > 12


@pytest.mark.parametrize(
    "line",
    [
        "- say: Hello.  #two blanks",
        "- say: Hello. # a blank after it",
        "- say: 'Room #5' #quoted",
        "- say: |  #of the block\n    Room #5\n",
        "- {set: {a: [1, 2]}} #after brackets",
        "- say: Room#5",
        "#- say: Hello #1",
    ],
)
def test_comments_that_cut_off_no_text_are_not_reported(line) -> None:
    reading = read_script(Source(f"{NATIVE}{line}\n- say: Goodbye.\n"))
    assert reading.script is not None
    assert "COMMENT_CUTS_TEXT" not in {problem.code for problem in reading.problems}


def test_comments_are_reported_in_an_older_file_that_is_fixed() -> None:
    forms = "\\forms: [{form: f, fields: [{field: a, type: text}]}]"
    problems = read_script(Source(script("- say: Open: Monday", "- say: Come to room #5.", forms))).problems
    assert [problem.line for problem in problems if problem.code == "COMMENT_CUTS_TEXT"] == [8]


def test_number_sign_in_a_text_does_not_hide_a_yaml_error() -> None:
    problems = read_script(Source(f"{NATIVE}- say: Note: this\n- say: Room #5\nforms: []\n")).problems
    assert [(each.code, each.line) for each in problems if each.code == "SYNTAX_ERROR"] == [("SYNTAX_ERROR", 4)]


NOT_SLIPS = {
    "keys of items": "- choose: Which?\n  into: a\n  choices: [{each: range(3) as n, key: =n, text: '{{ n }}'}]",
    "a key in a text": "- choose: Which?\n  into: a\n  choices: [{each: range(3) as n, key: 'n{{ n }}', text: x}]",
    "an empty value with a colon": "- set: {a: {b: one, c: , d: two}}",
    "an empty value in a block": "- set:\n    a:\n      b: one\n      c:",
    "an empty value after a quoted text": "- set: {a: {b: 'one', c}}",
    "a filter of all kinds": """- recall: x
  into: a
  filters: {$or: [{source: user}, {metadata.a.b: {$gte: 2}}], $not: {groupId: {$in: [g]}}, content: =user.id}""",
    "a field that another action adds": """- ask: Who?
  into: {add_to: planned, fields: [{var: name}]}
- add: {planned: {name: Ana, town: Rome}}
- foreach: planned as p
  do: [say: "{{ p.name }}{{ p.town }}"]""",
    "a field that a skill adds": """- ask: Who?
  into: {add_to: planned, fields: [{var: name}]}
- {call: breathe, foreach: planned as p, with: {minutes: 1, note: =p.name}, into: {calm: calm}}
- foreach: planned as p
  do: [say: "{{ p.calm }}"]""",
    "a field of unknown records": "- ai_think: x\n  into: {var: things, type: list}\n- say: '{{ things[0].name }}'",
    "a field of records of the application": "- foreach: things as t\n  do: [say: '{{ t.name }}']",
    "a field that is tested": "- set: {planned: [{name: Ana}]}\n- say: '{{ planned[0].town | default(1) }}'",
    "an item with the name of a list": """- set: {planned: [{name: Ana}]}
- foreach: things as planned
  do: [say: "{{ planned.town }}"]""",
    "null and an empty list": """- set: {planned: null}
- set: {planned: []}
- say: "{{ planned[0].town }}{{ planned.town }}" """,
    "a default of the declared type": "- ask: When?\n  into: {var: start, default: '9:30'}",
    "a default that is computed": "- ask: When?\n  into: {var: start, default: =now.isoformat()}",
    "a date in a text": "- set: {a: '2026-01-31'}\n- wait: {until: =a}",
    "a date of a declared type": "- wait: {until: =day}",
    "a late reminder": "- ask: A?\n  into: a\n  remind: [{after: 1 day, say: x}]\n  expire: {after: 23 hours}",
    "a list with another name": "- ask: A?\n  into: [{add_to: planned, fields: [x]}]",
    "a parameter of its type": "- call: breathe\n  with: {minutes: '5', note: [a]}",
    "a computed parameter": "- call: breathe\n  with: {minutes: =a, note: b}\n- set: {a: five}",
}
AROUND_THEM = """
timezone: Europe/Berlin
declare: [{var: start, type: time}, {var: day, type: date}, {var: things, type: list}, {var: a}]
skills:
  - skill: breathe
    params: [{var: minutes, type: number}, {var: note}]
    actions: [say: "{{ minutes }}{{ note }}", set: {calm: true}]
    returns: [calm]
"""


@pytest.mark.parametrize("name", NOT_SLIPS)
def test_what_resembles_a_slip_is_not_reported(name) -> None:
    reading = read_script(Source(f"{NATIVE}{NOT_SLIPS[name]}\n- say: '{{{{ a }}}} {{{{ planned }}}}'{AROUND_THEM}"))
    assert reading.script is not None
    slips = {"MEMBER_UNKNOWN", "CHOICES_INVALID", "UNKNOWN_KEY", "FILTER_INVALID", "TYPE_CLASH", "ACTION_UNREACHABLE"}
    found = [each for each in reading.problems if each.code in slips or "resembles" in each.fix]
    assert found == []


@pytest.mark.parametrize("on", ["asks for the price, or for help", "price", "[price, help]", "{keywords: [price]}"])
def test_descriptions_and_lists_of_keywords_are_not_confused(on) -> None:
    interrupt = f"interrupts: [{{interrupt: i, on: {on}, do: [{{say: Yes.}}]}}]"
    reading = read_script(Source(f"{NATIVE}- say: Hello.\n{interrupt}\n".replace("or for", "for")))
    assert "KEYWORDS_UNLISTED" not in {problem.code for problem in reading.problems}


ANSWERS = {
    "text": ("into: a", True),
    "choices": ("into: {var: a, choices: [yes, no]}", True),
    "choices without no": ("into: {var: a, choices: [tea, coffee]}", False),
    "boolean": ("into: {var: a, type: boolean}", False),
    "number": ("into: {var: a, type: number}", False),
    "optional": ("into: {var: a, type: text, required: false}", False),
    "default": ("into: {var: a, choices: [yes, no], default: yes}", False),
    "perhaps not asked": ("when: b\n  into: a", False),
}


@pytest.mark.parametrize("condition", ["a", "not a"])
@pytest.mark.parametrize(("keys", "is_reported"), ANSWERS.values(), ids=ANSWERS)
def test_answer_that_is_always_true_is_reported_as_a_condition(keys, is_reported, condition) -> None:
    lines = f"- ask: Well?\n  {keys}\n- when: {condition}\n  say: Yes.\n"
    asked = "- ask: Sure?\n  into: {var: b, type: boolean}\n"
    reading = read_script(Source(f"{NATIVE}{asked}{lines}"))
    assert reading.script is not None
    assert ("CONDITION_CONSTANT" in {problem.code for problem in reading.problems}) is is_reported


def test_answer_that_a_loop_reads_before_it_is_no_constant() -> None:
    loop = "- repeat: {max: 3, until: b}\n  do:\n    - when: a\n      say: Again.\n    - ask: Well?\n      into: a\n"
    asked = "    - ask: Done?\n      into: {var: b, type: boolean}\n"
    reading = read_script(Source(f"{NATIVE}{loop}{asked}"))
    assert "CONDITION_CONSTANT" not in {problem.code for problem in reading.problems}


@pytest.mark.parametrize("when", ["true", "2 > 1"])
def test_a_condition_that_is_true_on_purpose_is_no_constant(when) -> None:
    reading = read_script(Source(f"{NATIVE}- {{say: Hello., when: {when}}}\n"))
    assert ("CONDITION_CONSTANT" in {problem.code for problem in reading.problems}) is (when != "true")


@pytest.mark.parametrize(
    ("text", "lines_below"), [('"Hello.\\nHello {{ name + }}"', 0), ("|\n    Hello.\n    Hello {{ name + }}", 2)]
)
def test_a_problem_in_a_quoted_text_is_reported_at_its_beginning(text, lines_below) -> None:
    reading = read_script(Source(f"{NATIVE}- say: {text}\n- say: Bye.\n"))
    (problem,) = reading.errors
    assert (problem.code, problem.line) == ("TEMPLATE_INVALID", NATIVE.count("\n") + 1 + lines_below)


def test_a_variable_that_nothing_sets_is_reported_beside_errors() -> None:
    asked = "- {ask: Name?, into: name}\n- {ask: Age?, into: {var: age, type: nubmer}}\n"
    said = "- say: Hello {{ nmae }}, {{ town }}.\n- say: You are {{ age }}.\n"
    reading = read_script(Source(f"{NATIVE}{asked}{said}"))
    assert [(problem.code, problem.message, problem.fix) for problem in reading.problems[1:]] == [
        ("VARIABLE_NEVER_SET", "nothing sets `nmae`", "Did you mean `name`?"),
        ("VARIABLE_NEVER_SET", "nothing sets `town`", CODES["VARIABLE_NEVER_SET"].fix),
    ]


def test_variable_a_missing_include_file_may_set_is_not_reported() -> None:
    reading = read_script(Source(f"use: [globals.yaml]\n{NATIVE}- say: Hello {{{{ town }}}}.\n"))
    assert [problem.code for problem in reading.problems] == ["USE_NOT_FOUND"]


def test_variable_read_in_the_line_of_an_error_is_not_reported() -> None:
    reading = read_script(Source(f"{NATIVE}- {{say: 'Hello {{{{ town }}}}', into: town}}\n"))
    assert [problem.code for problem in reading.problems] == ["UNKNOWN_KEY"]


@pytest.mark.parametrize("kind", ["text", "list"])
@pytest.mark.parametrize("keys", ["ask: How many?\n  into: {{var: many, type: {}, choices: ['1', '2']}}", "say: Hello"])
def test_choices_of_a_type_that_accepts_all_are_reported(keys, kind) -> None:
    declared = "" if "ask" in keys else f"declare: [{{var: many, type: {kind}, choices: ['1', '2']}}]\n"
    reading = read_script(Source(f"cuebook: 1\nscript: s\n{declared}actions:\n- {keys.format(kind)}\n"))
    problem = next(each for each in reading.problems if each.code == "KEY_IGNORED")
    assert problem.message == f"`type: {kind}` accepts any {kind}, also one that is not among the `choices`"
    assert problem.fix == "Remove `type`, or write `type: choice`."


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ("[{0: Never}, {often: Often}]", "the choice 'often' is not a number as it is stored"),
        ("['01', '2']", "the choice '01' is not a number as it is stored"),
        ("[{0: Never}, {1: never}]", "two choices have the same text"),
        ("[{0: Never}, {0: Often}]", "a choice occurs twice"),
    ],
)
def test_choices_that_are_ambiguous_or_no_numbers_are_errors(choices, message) -> None:
    asked = f"- ask: How often?\n  into: {{var: a, type: number, choices: {choices}}}\n"
    reading = read_script(Source(f"{NATIVE}{asked}"))
    assert [(each.code, each.message) for each in reading.errors] == [("CHOICES_INVALID", message)]


def test_lines_of_an_unreadable_part_are_not_unknown() -> None:
    table = "strings: de\nlines: {p/t/hello.say: {of: Hello, text: Hallo}}\n"
    written = "cuebook: 1\nscript: v\nlocale: en\nuse: [v.de.yaml]\nphases:\n"
    written += "  - {phaes: p, topics: [{topic: t, actions: [{say: Hello, id: hello}]}]}\n"
    reading = read_script(Source(written, side_files={"v.de.yaml": table}))
    assert [(problem.code, problem.fix) for problem in reading.problems] == [("UNKNOWN_KEY", "Did you mean `phase`?")]
