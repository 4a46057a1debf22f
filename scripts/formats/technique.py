"""The technique format: a `topic` with a `technique_id`, parameters and returns; that is, a skill."""

from scripts.expressions.values import DeclaredType, Value
from scripts.formats.placeholders import reference
from scripts.formats.session import spellings
from scripts.formats.session.session_format import TopicForm, translated_topic
from scripts.formats.words import VARIABLE_TYPES
from scripts.model.actions import Call
from scripts.model.base import Expression, Node
from scripts.model.script import FormDefinition, Parameter, Phase, Script, Skill, Topic
from scripts.model.variables import Declaration
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping


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
    technique_type: str = ""
    name: str = ""
    version: str = ""
    author: str = ""
    description: str = ""
    input_parameters: tuple[TechniqueInput, ...] = ()
    output_variables: tuple[str, ...] = ()


def recognises(tree: Mapping) -> bool:
    """Whether a file has this format."""
    topic = tree.get("topic")
    is_topic = isinstance(topic, Mapping) and topic.get("topic_id") is not None
    return is_topic or (tree.get("technique_id") is not None and topic is not None)


def read(tree: Mapping, reader: Reader) -> tuple[Skill, tuple[FormDefinition, ...]] | None:
    """Read the skill and the forms that it shows, or None; the reader collects the problems."""
    technique = reader.read(spellings.technique(tree), _Technique)
    return None if technique is None else _skill(technique, reader)


def _skill(technique: _Technique, reader: Reader) -> tuple[Skill, tuple[FormDefinition, ...]]:
    topic, forms = translated_topic(technique.topic, reader)
    skill = Skill(
        id=technique.technique_id,
        title=technique.technique_name or technique.name,
        goal=topic.goal,
        strategy=topic.strategy,
        params=tuple(_parameter(each) for each in technique.input_parameters),
        returns=technique.output_variables,
        declare=topic.declare,
        actions=topic.actions,
        at=technique.at,
        marks={"skill": technique.mark("technique_id"), "returns": technique.mark("output_variables")},
    )
    return skill, forms


def _kind(declared: TechniqueInput) -> DeclaredType | None:
    """Return the declared type of a parameter; a choice without choices is a text."""
    kind = VARIABLE_TYPES.get(declared.type.strip().lower())
    return None if kind == "choice" else kind


def _parameter(declared: TechniqueInput) -> Parameter:
    return Parameter(
        var=declared.name,
        define=declared.description,
        required=declared.required,
        value=declared.default,
        type=_kind(declared),
        pii=declared.pii,
        at=declared.at,
        marks={"var": declared.mark("name")},
    )


def read_as_script(tree: Mapping, reader: Reader) -> Script | None:
    """Return a script that only calls the skill, with the session's initial variables as parameters."""
    technique = reader.read(spellings.technique(tree), _Technique)
    if technique is None:
        return None
    skill, forms = _skill(technique, reader)
    call = Call(
        id="call",
        skill=skill.id,
        input={each.var: Expression(reference(each.var), each.at) for each in skill.params},
        output={name: name for name in skill.returns},
        at=skill.at,
    )
    topic = Topic(id="main", title=skill.title, goal=skill.goal, actions=(call,), at=skill.at)
    parameters = tuple(Declaration(var=each.var, define=each.define, pii=each.pii, at=each.at) for each in skill.params)
    returned = tuple(Declaration(var=name, at=skill.mark("returns")) for name in skill.returns)
    return Script(
        id=skill.id,
        title=skill.title,
        version=technique.version,
        description=technique.description,
        author=technique.author,
        tags=(technique.technique_type,) if technique.technique_type else (),
        default_scope="session",
        declare=(*parameters, *returned),
        phases=(Phase(id="main", topics=(topic,), at=skill.at),),
        skills=(skill,),
        forms=forms,
        form="technique",
        at=skill.at,
        marks={"script": skill.mark("skill")},
    )
