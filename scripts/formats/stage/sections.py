"""The include files of the stage format: `global`, `roles`, `skills`, `forms` and `rules`."""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct, convert
from msgspec.structs import replace

from scripts.expressions.suggestions import resembles, suggest
from scripts.expressions.values import Value, shorten
from scripts.formats.conditions import is_computed
from scripts.formats.stage.forms import is_widget, sheet
from scripts.formats.stage.keywords import BLOCKS, KINDS, UNSUPPORTED
from scripts.formats.stage.names import Names, names_of, node_id, of_owner, variable_name
from scripts.formats.stage.outputs import DECLARATION_KEYS, declarations
from scripts.formats.stage.stage_actions import actions_of, block
from scripts.formats.stage.stage_reader import Item, StageReader, entries
from scripts.formats.text_lists import choices_in
from scripts.formats.words import ROLE_TYPES, VERBS
from scripts.model.actions import Action, Foreach, walk
from scripts.model.base import Expression
from scripts.model.diagnostics import Problems
from scripts.model.languages import LANGUAGE_KEY
from scripts.model.script import After, IncludeFile, Interrupt, Parameter, Role, Script, Skill, Trigger
from scripts.model.variable_names import read_names
from scripts.model.variables import Declaration
from scripts.yaml.decoder import Reader
from scripts.yaml.grammar import policy_words
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, is_null, pairs_of, word

KEYS = ("global", "globals", "skills", "roles", "forms", "rules")
_NATIVE = ("interrupts", "repairs", "detectors")  # sections that this format does not have
_ROLE_KEYS = ("role", "type", "name", "tone", "define", "desc", "pic")


def recognises(tree: Mapping) -> bool:
    """Return whether an include file is in this format rather than the native format."""
    if tree.get("rules") is not None or tree.get("global") is not None:
        return True
    skills, roles, forms, variables = (_mappings(tree.get(key)) for key in ("skills", "roles", "forms", "globals"))
    if tree.get(LANGUAGE_KEY) is None and any(
        len(each.pairs) == 1 and _is_named_value(*each.pairs[0]) for each in variables
    ):
        return True
    if any(each.get("skill") is None and each.get("goal") is not None for each in skills):
        return True
    if any(set(each.keys()) - {*_ROLE_KEYS, "attributes"} for each in roles):
        return True
    fields = [field for each in forms for field in _mappings(each.get("fields"))]
    return any(each.get("form") is None for each in forms) or any(each.get("field") is None for each in fields)


def _is_named_value(key: Scalar, value: Tree) -> bool:
    """Return whether a pair is ``name: 1``; with a text, it may be a declaration with a misspelt `var`."""
    is_text = isinstance(value, Scalar) and isinstance(value.value, str | None)
    return not is_text and not resembles(key.text, DECLARATION_KEYS)


def _mappings(tree: Tree | None) -> list[Mapping]:
    return [each for each in entries(tree) if isinstance(each, Mapping)]


def read(tree: Mapping, reader: Reader, outside: Names) -> IncludeFile:
    """Read the content of an include file; the reader collects the problems. `outside` are variables of other files."""
    draft = _read(tree, StageReader(Reader(Problems(reader.problems.file), lenient=True), outside))
    script = Script(
        id="", phases=(), skills=draft.skills, interrupts=draft.interrupts, globals=draft.globals, forms=draft.forms
    )
    return _read(tree, StageReader(reader, names_of(script).with_others(outside)))


def _read(tree: Mapping, notation: StageReader) -> IncludeFile:
    item = Item(notation, tree)
    found = IncludeFile(use=notation.words(item.take("use") if "use" in item else None), at=tree.at, marks=item.marks)
    found = with_sections(notation, item, KEYS, found)
    item.finish()
    return found


def with_sections(notation: StageReader, item: Item, keys: Iterable[str], found: IncludeFile) -> IncludeFile:
    """Add the sections of a file with these keys, and those that are written as in the native format."""
    for key in (*keys, *_NATIVE):
        part = item.take(key) if key in item else None
        if part is not None and key not in _NATIVE:
            found = _section(notation, key, part, found)
        elif part is not None:
            native = notation.reader.read(Mapping(((word(key, part), part),), item.at), IncludeFile) or IncludeFile()
            found = replace(found, **{key: (*getattr(found, key), *getattr(native, key))})
    return found


def _section(notation: StageReader, key: str, tree: Tree, found: IncludeFile) -> IncludeFile:
    """Add the content of one section."""
    if key in {"global", "globals"}:
        return replace(found, globals=(*found.globals, *declarations(notation, tree, are_values=True)))
    field, verb, read_one = {
        "skills": ("skills", "goal", skill),
        "roles": ("roles", "role", role),
        "forms": ("forms", "form", sheet),
        "rules": ("interrupts", "rule", rule),
    }[key]
    named = _mappings_of(notation, tree, verb)
    items = [read_one(notation, each) for each in (_with_fields(named) if verb == "form" else named)]
    return replace(found, **{field: (*getattr(found, field), *items)})


def _mappings_of(notation: StageReader, tree: Tree, verb: str) -> Iterator[Mapping]:
    """Yield the mappings of a list, or of a mapping by name; a name alone stands for a mapping with only the name."""
    if isinstance(tree, Mapping) and _is_by_name(tree, verb):
        yield from _by_name(tree, verb)
        return
    for each in entries(tree):
        if isinstance(each, Mapping):
            is_one = len(each.pairs) == 1 and not is_widget(each) and _is_by_name(each, verb)
            yield from _by_name(each, verb) if is_one else (each,)
        elif isinstance(each, Scalar) and each.value is not None:
            yield Mapping(((Scalar(verb, True, each.at), each),), each.at)
        else:
            notation.refuse("TYPE_MISMATCH", f"expected a mapping with `{verb}`", each.at)


def _is_by_name(tree: Mapping, verb: str) -> bool:
    """Return whether a mapping has only names as keys; a form may be a list of its fields."""
    kinds = (Mapping, Sequence) if verb == "form" and tree.get(verb) is None else (Mapping,)
    return all(isinstance(value, kinds) for _, value in tree.pairs)


def _by_name(tree: Mapping, verb: str) -> Iterator[Mapping]:
    for key, value in tree.pairs:
        if isinstance(value, Sequence):  # for a form: its fields
            yield Mapping(((word(verb, key), key), (word("fields", value), value)), key.at)
        elif isinstance(value, Mapping):
            head = (Scalar(verb, True, key.at), key)
            own = tuple(pair for pair in value.pairs if pair[0].text != verb)
            yield Mapping((head, *own), key.at)


def _with_fields(trees: Iterator[Mapping]) -> Iterator[Mapping]:
    """Read the forms of a list. Widgets beside a form are fields of the form above."""
    forms: list[tuple[Mapping | None, list[Tree]]] = [(None, [])]  # with the widgets beside each
    for each in trees:
        if is_widget(each):
            forms[-1][1].append(each)
        else:
            forms.append((each, []))
    for form, widgets in forms:
        if widgets:
            holder = form or widgets[0]
            fields = (word("fields", holder), Sequence(tuple(widgets), widgets[0].at))
            yield Mapping((*pairs_of(form), fields), holder.at)
        elif form is not None:
            yield form


# -- skills -----------------------------------------------------------------------------------------------------------


def skill(notation: StageReader, tree: Mapping) -> Skill:
    """Read a skill: a goal whose declarations are its parameters. It returns the variables that it sets.

    Other variables that it reads are parameters too, because in this format a goal reads the variables of its caller.
    """
    item = Item(notation, tree)
    written = item.word("goal", "skill", "topic", "name", "id")
    params = [
        Parameter(**{name: getattr(each, name) for name in each.__struct_fields__}, required=False)
        for each in declarations(notation, item.take("declare", "params", "input"))
    ]
    returns = tuple(notation.variables(item.take("returns", "return", "output")))
    name = node_id(written) or "skill"
    found = Skill(
        id=name,
        title=item.word("title") or (written if written and written != name else ""),
        goal=item.word("target", "aim", "purpose", "define", "desc", "description"),
        strategy=item.word("strategy"),
        actions=block(notation, item.take("actions", "do", "steps")),
        at=tree.at,
        marks={**item.marks, "skill": item.marks.get("goal", tree.at)},
    )
    item.finish()
    written_here = of_owner(found)
    loops = {action.loop.name for action in walk(found.actions) if isinstance(action, Foreach)}
    known = {each.var for each in params} | set(written_here) | loops
    read = [name for name in read_names(found.actions) if name not in known and variable_name(name) == name]
    params += [Parameter(var=name, required=False, at=tree.at) for name in dict.fromkeys(read)]
    # its outputs are local until they are returned, even if a global variable has the same name
    own = tuple(Declaration(var=name, at=tree.at) for name in written_here if name not in {each.var for each in params})
    return replace(found, params=tuple(params), declare=own, returns=returns or written_here)


# -- roles ------------------------------------------------------------------------------------------------------------


def role(notation: StageReader, tree: Mapping) -> Role:
    """Read a role; keys that the model does not have become attributes, for the application."""
    item = Item(notation, tree)
    written = item.word("role", "id")
    kind = item.word("type", "kind")
    if kind.lower() not in ROLE_TYPES:
        message = f"expected AI or HUMAN, found {shorten(kind)}; AI is used"
        notation.slip("ENUM_VALUE_INVALID", message, item.marks["type"])
    found = Role(
        id=node_id(written or item.word("name")) or "role",
        type="HUMAN" if ROLE_TYPES.get(kind.lower()) == "HUMAN" else "AI",
        name=item.word("name"),
        tone=item.word("tone"),
        define=item.word("define"),
        desc=item.word("desc", "description"),
        pic=item.word("pic", "image", "avatar"),
        at=tree.at,
        marks=item.marks,
    )
    attributes: dict[str, Value] = {}
    for key, value in item.the_rest():
        near = suggest(key.text, _ROLE_KEYS, otherwise="")
        if near and key.text != "attributes":
            message = f"`{key.text}` is stored for the application only"
            notation.reader.add("UNKNOWN_KEY", message, key.at, near, severity="warning")
        content = notation.value(value)
        attributes |= content if key.text == "attributes" and isinstance(content, dict) else {key.text: content}
    return replace(found, attributes=attributes)


# -- rules -----------------------------------------------------------------------------------------------------------


_POLICIES = {word: convert({"policy": word}, After) for word in policy_words(After)}
_GOTO = re.compile(r"goto(?:\s*[:：]\s*|\s+)(?P<target>\S.*)")
_PRIORITY_MAX = 1_000_000
_EVERY_MESSAGE = re.compile(
    r"user|human|visitor|reply|replies|input|message|every|each|always|any|turn"
    r"|用户|来访|心旅者|回复|说话|输入|每|任何|随时|总是"
)
_OTHER_TIME = re.compile(
    r"\d|second|minute|hour|timer|noon|morning|evening|night|week|month|(?<![a-z])(before|start|begin|end|ai|day)(?![a-z])"
    r"|秒|分钟|小时|定时|前|开始|结束|助理|向导|[早晚]上|[上中下]午|每[天日周月]"
)


class _Cause(Struct):
    """The trigger of a rule, as far as it is known."""

    keywords: tuple[str, ...] = ()
    intent: str = ""
    detector: str = ""
    when: Expression | None = None


def rule(notation: StageReader, tree: Mapping) -> Interrupt:
    """Convert a rule to an interrupt. Without a trigger its name becomes an intent, which the model judges."""
    item = Item(notation, tree)
    written = item.word("rule", "name", "id", "interrupt")
    goal = item.word("goal", "topic")
    cause = _cause(notation, item)
    meaning = item.take("define", "desc", "description")
    about = notation.word(meaning) or goal or written
    if meaning is not None and (cause.keywords or cause.intent or cause.detector):
        fix = "Write it as `on: {intent: …}` if a model is to judge by it."
        message = "the meaning of the rule has no effect beside its trigger"
        notation.reader.add("KEY_IGNORED", message, meaning.at, fix, severity="note")
    if not (cause.keywords or cause.intent or cause.detector):
        message = "the rule has no trigger; the model judges by its name"
        notation.slip("TRIGGER_EMPTY", message, tree.at, "Write `on:` with the words that trigger it.")
        cause.intent = about or "rule"
    then = item.take("then", "after")
    priority = notation.number(item.take("priority", "order"), -_PRIORITY_MAX, _PRIORITY_MAX) or 0
    _look(notation, item)
    actions = (*block(notation, item.take("actions", "do", "steps")), *_beside(notation, item))
    policy = _policy(notation, then)
    if policy is None and then is not None:
        actions = (*actions, *block(notation, then))
    found = Interrupt(
        id=node_id(written or goal),
        on=Trigger(
            keywords=cause.keywords,
            match="anywhere" if cause.keywords else "short",
            intent=cause.intent,
            detector=cause.detector,
            at=item.marks.get("on", tree.at),
        ),
        when=cause.when,
        priority=priority,
        actions=actions,
        then=policy or After(),
        at=tree.at,
        marks={**item.marks, "interrupt": item.marks.get("rule", tree.at)},
    )
    item.finish()
    if not actions and policy is None:
        notation.lacks("this rule has no actions", tree.at, "Add `do:` with actions, or `say:`.")
    return found


def _look(notation: StageReader, item: Item) -> None:
    """Check when the rule is evaluated: only every message of the user is supported."""
    tree = item.take("check_time") if "check_time" in item else None
    word = notation.word(tree).lower()
    if tree is not None and (not _EVERY_MESSAGE.search(word) or _OTHER_TIME.search(word)):
        why, fix = UNSUPPORTED["check_time"]
        notation.refuse("UNKNOWN_KEY", f"`check_time: {word}` is not supported: {why}", tree.at, fix)


def _beside(notation: StageReader, item: Item) -> Iterator[Action]:
    """Yield the action beside the name of the rule, outside its `do`."""
    if not item.keys_in({*VERBS, *BLOCKS, *KINDS}):
        return
    pairs = tuple(item.the_rest(but=item.keys_in(UNSUPPORTED)))
    yield from actions_of(notation, Mapping(pairs, item.at))


def _cause(notation: StageReader, item: Item) -> _Cause:
    cause = _Cause()
    words = item.take("keywords", "keyword", "words", "includes", "contains")
    cause.keywords = tuple(_words(notation, words))
    on = item.take("on", "trigger", "intent", "event")
    if isinstance(on, Mapping):
        inner = Item(notation, on)
        cause.keywords += tuple(_words(notation, inner.take("keywords", "words", "keyword")))
        cause.intent, cause.detector = inner.word("intent", "define"), inner.word("detector")
        inner.finish()
    elif isinstance(on, Sequence):
        cause.keywords += tuple(_words(notation, on))
    elif on is not None:
        _read_trigger(notation, on, cause)
    for key in ("when", "if", "condition", "check"):
        tree = item.take(key) if key in item else None
        if tree is not None:
            _read_trigger(notation, tree, cause)
    return cause


def _read_trigger(notation: StageReader, tree: Tree, cause: _Cause) -> None:
    """Read a trigger as a condition if it contains a comparison, otherwise as an intent."""
    words = isinstance(tree, Scalar) and isinstance(tree.value, str)
    if isinstance(tree, Scalar) and words and "{" not in tree.text and not is_computed(tree.text, notation.knows):
        cause.intent = f"{cause.intent}; {tree.text.strip()}" if cause.intent else tree.text.strip()
        return
    found = notation.condition(tree)
    if found is not None and cause.when is not None:
        found = Expression(f"({cause.when.source}) and ({found.source})", found.at)
    cause.when = found or cause.when


def _words(notation: StageReader, tree: Tree | None) -> Iterator[str]:
    for each in choices_in(tree).items if isinstance(tree, Scalar) else entries(tree):
        yield from (part.strip() for part in re.split(r"[,，、;；]", notation.text(each)) if part.strip())


def _policy(notation: StageReader, tree: Tree | None) -> After | None:
    """Read what follows: the word of a policy, or ``goto GOAL``."""
    if tree is not None and is_null(tree):
        return After()
    if isinstance(tree, Mapping) and list(tree.keys()) == ["goto"]:
        return After(policy="goto", target=notation.word(tree.pairs[0][1]), at=tree.at)
    if not isinstance(tree, Scalar):
        return None
    word = tree.text.strip()
    if (found := _GOTO.fullmatch(word)) is not None:
        return After(policy="goto", target=found["target"], at=tree.at)
    known = _POLICIES.get(word)
    return None if known is None else replace(known, at=tree.at)
