"""The technique form: one `topic` with a `technique_id`, parameters and returns; that is, a skill."""

from scripts.actions import Call
from scripts.dialects import session_spellings
from scripts.dialects.placeholders import reference
from scripts.dialects.session_form import TopicForm, translated_topic
from scripts.dialects.stage_values import VARIABLE_TYPES
from scripts.model import FormSheet, Parameter, Phase, Script, Skill, Topic
from scripts.nodes import Expression, Node
from scripts.reader import Reader
from scripts.source import Mapping
from scripts.values import DeclaredType, Value
from scripts.variables import Declaration


class _Input(Node, frozen=True, kw_only=True):
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
    input_parameters: tuple[_Input, ...] = ()
    output_variables: tuple[str, ...] = ()


def recognises(tree: Mapping) -> bool:
    """Whether a file is meant to be in this form."""
    return tree.get("technique_id") is not None and tree.get("topic") is not None


def read(tree: Mapping, reader: Reader) -> tuple[Skill, tuple[FormSheet, ...]] | None:
    """The skill and the forms it shows, or None; what is wrong is with the reader."""
    technique = reader.read(session_spellings.technique(tree), _Technique)
    return None if technique is None else _skill(technique, reader)


def _skill(technique: _Technique, reader: Reader) -> tuple[Skill, tuple[FormSheet, ...]]:
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


def _kind(given: _Input) -> DeclaredType | None:
    """The type that a parameter is said to have; a choice without choices is any text."""
    kind = VARIABLE_TYPES.get(given.type.strip().lower())
    return None if kind == "choice" else kind


def _parameter(given: _Input) -> Parameter:
    return Parameter(
        var=given.name,
        define=given.description,
        required=given.required,
        value=given.default,
        type=_kind(given),
        pii=given.pii,
        at=given.at,
        marks={"var": given.mark("name")},
    )


def read_as_script(tree: Mapping, reader: Reader) -> Script | None:
    """A script that does nothing but call the skill, with the session's initial variables as its parameters."""
    technique = reader.read(session_spellings.technique(tree), _Technique)
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
    given = tuple(Declaration(var=each.var, define=each.define, pii=each.pii, at=each.at) for each in skill.params)
    returned = tuple(Declaration(var=name, at=skill.mark("returns")) for name in skill.returns)
    return Script(
        id=skill.id,
        title=skill.title,
        version=technique.version,
        description=technique.description,
        author=technique.author,
        tags=(technique.technique_type,) if technique.technique_type else (),
        default_scope="session",
        declare=(*given, *returned),
        phases=(Phase(id="main", topics=(topic,), at=skill.at),),
        skills=(skill,),
        forms=forms,
        form="technique",
        at=skill.at,
        marks={"script": skill.mark("skill")},
    )
