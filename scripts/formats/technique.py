"""The technique format: a `topic` with a `technique_id`, parameters and returns; that is, a skill."""

from collections.abc import Iterator

from msgspec.structs import replace

from scripts.expressions.suggestions import snake_case
from scripts.expressions.values import Value
from scripts.formats.placeholders import variable_reference
from scripts.formats.session.session_format import TopicForm, translated_topic
from scripts.formats.session.unused_keys import report_unused
from scripts.formats.text_lists import choices_in, has_variable_name, with_name
from scripts.formats.words import PARAMETER_KEYS, TECHNIQUE_KEYS, VARIABLE_TYPES
from scripts.model.actions import Action, AiAsk, AiThink, Call, outputs_of
from scripts.model.base import Expression, Node
from scripts.model.script import FormDefinition, Parameter, Phase, Script, Skill, Topic
from scripts.model.variables import Declaration, Output, OutputItem
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import (
    Mapping,
    Scalar,
    Sequence,
    Tree,
    is_null,
    items_of,
    keys_renamed,
    pairs_of,
    text_in,
    word,
)

_PARTS = {"topic", "topics", "actions", "input_parameters", "output_variables", "technique_name"}
_OF_NAME = {"name", "var", "variable", "get"}


_OWN_KEYS = {*_OF_NAME, *PARAMETER_KEYS, "description", "default", "required", "type", "pii"}


class TechniqueInput(Node, frozen=True, kw_only=True):
    name: str
    description: str = ""
    required: bool = True
    default: Value = None
    type: str = ""
    pii: bool = False


class _Technique(Node, frozen=True, kw_only=True):
    technique_id: str
    topic: TopicForm
    technique_name: str = ""
    technique_type: tuple[str, ...] = ()
    name: str = ""
    version: str = ""
    author: str = ""
    description: str = ""
    input_parameters: tuple[TechniqueInput, ...] = ()
    output_variables: tuple[str, ...] = ()


_NAMES = {*_Technique.__struct_fields__, *TECHNIQUE_KEYS}


def recognises(tree: Mapping) -> bool:
    """Return whether a file has this format."""
    topic, inner = tree.get("topic"), tree.get("technique")
    is_topic = any(snake_case(key.text) == "topic_id" for key, _ in pairs_of(topic))
    keys = [{snake_case(key.text) for key, _ in pairs_of(each)} for each in (tree, inner)]
    is_inside = bool(_PARTS & {TECHNIQUE_KEYS.get(key, key) for key in keys[1]})
    return is_topic or is_inside or ("technique_id" in keys[0] and bool(_PARTS & keys[0]))


def _correct_spelling(tree: Mapping, reader: Reader) -> Mapping:
    """Convert other spellings: keys in `technique` or `metadata`, described outputs, actions without a topic."""
    held: dict[str, tuple[Scalar, Tree]] = {}
    for part in (tree.get("technique"), tree, tree.get("metadata")):
        for key, value in reader.in_snake_case(part, _NAMES).pairs if isinstance(part, Mapping) else ():
            is_known = part is not tree.get("metadata") or key.text in _Technique.__struct_fields__
            if is_known and not (key.text in {"technique", "metadata"} and isinstance(value, Mapping)):
                held.setdefault(key.text, (key, value))
    found = keys_renamed(Mapping(tuple(held.values()), tree.at), TECHNIQUE_KEYS)
    return Mapping(tuple((key, _part(key.text, value)) for key, value in _with_topic(found).pairs), tree.at)


def _with_topic(tree: Mapping) -> Mapping:
    """Return the tree with its `actions` in a topic, which is named like the technique."""
    actions, name = tree.get("actions"), tree.get("technique_id")
    if actions is None or name is None or tree.get("topic") is not None:
        return tree
    topic = Mapping(((word("topic_id", name), name), (word("actions", actions), actions)), actions.at)
    others = (pair for pair in tree.pairs if pair[0].text != "actions")
    return Mapping((*others, (word("topic", topic), topic)), tree.at)


def _part(key: str, tree: Tree) -> Tree:
    match key, tree:
        case "topic", Sequence(items=(first, *_)):
            return first
        case "output_variables" | "input_parameters", Scalar():
            return choices_in(tree)
        case "output_variables" | "input_parameters", Mapping() if _is_one(tree):
            return _part(key, Sequence((tree,), tree.at))
        case "output_variables", Mapping():
            return Sequence(tuple(name for name, _ in tree.pairs), tree.at)
        case "output_variables", Sequence():
            return replace(tree, items=tuple(_name(each) for each in tree.items))
        case "input_parameters", Mapping():
            return Sequence(tuple(_parameter_of(*pair) for pair in tree.pairs), tree.at)
        case "input_parameters", Sequence():
            return replace(tree, items=tuple(_parse_parameter(each) for each in tree.items))
        case _:
            return tree


def _is_one(tree: Mapping) -> bool:
    """Return whether a mapping is one parameter or output, and not ``{name: meaning, age: meaning}``."""
    return not _OF_NAME.isdisjoint(tree.keys()) and not has_variable_name(tree, _OWN_KEYS)


def _name(tree: Tree) -> Tree:
    """Return the name of an output, which may be described."""
    if not isinstance(tree, Mapping):
        return tree
    alone = tree.pairs[0][0] if len(tree.pairs) == 1 else tree
    return next((value for key, value in tree.pairs if key.text in _OF_NAME), alone)


def _parse_parameter(tree: Tree) -> Tree:
    """Return a parameter, also if it is written as ``{name: meaning}``."""
    if not isinstance(tree, Mapping):
        return tree
    renamed = keys_renamed(tree, PARAMETER_KEYS)
    is_pair = len(tree.pairs) == 1 and renamed.get("name") is None
    return _parameter_of(*tree.pairs[0]) if is_pair else renamed


def _parameter_of(key: Scalar, value: Tree) -> Tree:
    spelled = keys_renamed(value, PARAMETER_KEYS) if isinstance(value, Mapping) else value
    return with_name("name", key, spelled, "description")


def read(tree: Mapping, reader: Reader) -> tuple[Skill, tuple[FormDefinition, ...]] | None:
    """Read the skill and the forms that it shows, or None; the reader collects the problems."""
    technique = _technique(tree, reader)
    return None if technique is None else _skill(technique, reader, tree)


def _technique(tree: Mapping, reader: Reader) -> _Technique | None:
    for key, value in (pair for part in (tree, tree.get("technique")) for pair in pairs_of(part)):
        if key.text in {"topic", "topics"} and isinstance(value, Sequence):
            for other in value.items[1:]:
                message = "a technique has only one topic; this one would not run"
                reader.refuse("TYPE_MISMATCH", message, other.at, "Write all actions in one topic.")
    technique = reader.read(_correct_spelling(tree, reader), _Technique)
    for key, value in pairs_of(tree.get("metadata")) if technique is not None else ():
        if key.text not in _Technique.__struct_fields__ and not is_null(value):
            report_unused(reader, key.text, value.at)
    return technique


def _meanings(tree: Mapping) -> Iterator[tuple[str, Scalar]]:
    """Yield the outputs that have a description, also of ``{name: meaning}``, and the descriptions."""
    pairs = (pair for part in (tree, tree.get("technique")) for pair in pairs_of(part))
    listed = [value for key, value in pairs if TECHNIQUE_KEYS.get(key.text, key.text) == "output_variables"]
    for each in (part for outputs in listed for part in (outputs, *items_of(outputs))):
        names = [text_in(part) for key, part in pairs_of(each) if PARAMETER_KEYS.get(key.text, key.text) == "name"]
        for key, value in pairs_of(each):
            is_meaning = not names or PARAMETER_KEYS.get(key.text, key.text) == "description"
            if is_meaning and isinstance(value, Scalar) and not is_null(value):
                yield (names[0] if names else key.text), value


def _with_meanings(actions: tuple[Action, ...], tree: Mapping, reader: Reader) -> tuple[Action, ...]:
    """Return actions whose outputs have the meanings of those of the technique; one that none takes is recorded."""
    meanings = dict(_meanings(tree))
    outputs = [each for action in actions for each in outputs_of(action) if isinstance(each, Output)]
    asked = {each.get for each in outputs} - {each.get for each in outputs if each.define}
    for name, written in meanings.items():
        if name not in asked:
            message = f"the meaning of the output `{name}` has no effect"
            reader.add("KEY_IGNORED", message, written.at, "Write it at the question that sets it.", severity="note")

    def complete(item: OutputItem) -> OutputItem:
        if isinstance(item, Output) and item.get in asked and item.get in meanings:
            return replace(item, define=meanings[item.get].text)
        return item

    return tuple(
        replace(action, outputs=tuple(map(complete, action.outputs))) if isinstance(action, AiAsk | AiThink) else action
        for action in actions
    )


def _skill(technique: _Technique, reader: Reader, tree: Mapping) -> tuple[Skill, tuple[FormDefinition, ...]]:
    topic, forms = translated_topic(technique.topic, reader, tree)
    skill = Skill(
        id=technique.technique_id,
        title=technique.technique_name or technique.name,
        goal=topic.goal,
        strategy=topic.strategy,
        params=tuple(_parameter(each) for each in technique.input_parameters),
        returns=technique.output_variables,
        declare=topic.declare,
        actions=_with_meanings(topic.actions, tree, reader),
        at=technique.at,
        marks={"skill": technique.mark("technique_id"), "returns": technique.mark("output_variables")},
    )
    return skill, forms


def _parameter(declared: TechniqueInput) -> Parameter:
    kind = VARIABLE_TYPES.get(declared.type.strip().lower())
    return Parameter(
        var=declared.name,
        define=declared.description,
        required=declared.required,
        value=declared.default,
        type=None if kind == "choice" else kind,  # it has no choices, and is a text
        pii=declared.pii,
        at=declared.at,
        marks={"var": declared.mark("name")},
    )


def _value_of(parameter: Parameter) -> Expression:
    """Return the value of a parameter: that of the variable of its name, which an optional one may lack."""
    reference = variable_reference(parameter.var)
    is_known = parameter.required or parameter.value is not None
    return Expression(reference if is_known else f"{reference} | default(none)", parameter.at)


def read_as_script(tree: Mapping, reader: Reader) -> Script | None:
    """Return a script that only calls the skill, with the session's initial variables as parameters."""
    technique = _technique(tree, reader)
    if technique is None:
        return None
    skill, forms = _skill(technique, reader, tree)
    passed, results = {each.var: _value_of(each) for each in skill.params}, {name: name for name in skill.returns}
    call = Call(id="call", skill=skill.id, input=passed, output=results, at=skill.at)
    title = technique.topic.topic_name or skill.title
    topic = Topic(id="main", title=title, goal=skill.goal, actions=(call,), at=skill.at)
    common = ("var", "define", "value", "pii", "at")
    parameters = tuple(Declaration(**{key: getattr(each, key) for key in common}) for each in skill.params)
    given = {each.var for each in parameters}
    returned = tuple(Declaration(var=name, at=skill.mark("returns")) for name in skill.returns if name not in given)
    return Script(
        id=skill.id,
        title=technique.name or skill.title,
        version=technique.version,
        description=technique.description,
        author=technique.author,
        tags=technique.technique_type,
        default_scope="session",
        declare=(*parameters, *returned),
        phases=(Phase(id="main", topics=(topic,), at=skill.at),),
        skills=(skill,),
        forms=forms,
        form="technique",
        at=skill.at,
        marks={"script": skill.mark("skill")},
    )
