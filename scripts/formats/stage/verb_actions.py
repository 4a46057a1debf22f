"""The simple actions of the stage format (say, ask, set, show …), each from its key and siblings."""

import re
from typing import Any

from msgspec.structs import replace

from scripts.expressions.values import shorten
from scripts.formats.condition_fixes import report_worded_exit
from scripts.formats.condition_trees import CRITERIA, condition_text
from scripts.formats.conditions import compares
from scripts.formats.stage.names import bare, event_name, node_id
from scripts.formats.stage.outputs import outputs
from scripts.formats.stage.stage_reader import Item, StageReader, content_at, placeholder_of
from scripts.model import actions
from scripts.model.actions import ROUNDS_MAX, Exit
from scripts.model.base import Expression, Template
from scripts.model.older_keys import ExitCriteria, exits_of, speech_of
from scripts.model.variables import Output, OutputItem
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, as_items, is_null, pairs_of

_OF_OUTPUT = ("get", "define", "desc", "description", "choices", "options")


def say_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    return actions.Say(texts=notation.templates(tree), **common)


def ai_say_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    """Read `ai_say`: one message, which in this format waits only if it requires an acknowledgement."""
    if (rounds := item.take("max_rounds")) is not None:
        notation.slip("KEY_IGNORED", "in this format `ai_say` sends one message and continues", rounds.at)
    acknowledge = notation.truth(item.take("require_acknowledgment", "require_acknowledgement"))
    return actions.AiSay(task=notation.template(tree), **speech_of(None, acknowledge), **common)


def _outputs(notation: StageReader, item: Item) -> tuple[OutputItem, ...]:
    """Read the outputs of an action: a list, or `get` beside it with its meaning."""
    tree = item.take("output", "outputs") if "output" in item or "outputs" in item else item.take_pairs(_OF_OUTPUT)
    return outputs(notation, tree, item.take("tolist", "to_list", "toList"))


def _asking(notation: StageReader, item: Item) -> dict[str, Any]:
    rounds = notation.number(item.take("max_rounds", "max_round", "rounds"), 0, ROUNDS_MAX)
    required = notation.truth(item.take("required", "must"))
    return {
        "outputs": tuple(_with_required(each, required) for each in _outputs(notation, item)),
        "invalid": item.template("invalid"),
        "max_rounds": actions.ROUNDS_DEFAULT if rounds is None else rounds,
    }


def _with_required(item: OutputItem, required: bool | None) -> OutputItem:
    """Return an output with the `required` of its question, unless it has its own."""
    is_open = isinstance(item, Output) and item.required is None and required is not None
    return replace(item, required=required) if is_open else item


def _exits(notation: StageReader, item: Item) -> tuple[Exit, ...]:
    """Read when to stop: words, or a condition if it compares variables."""
    written, when = item.take("exit", "exit_condition", "exit_if"), item.take("exit_when")
    written = condition_text(written) if isinstance(written, Mapping) else written
    criteria = item.take("exit_criteria")
    found: dict[str, Any] = {"exit_when": notation.condition(when)}
    if criteria is not None:
        reader = Reader(notation.reader.problems, lenient=notation.reader.lenient, respell=CRITERIA)
        found["exit_criteria"] = reader.read(criteria, ExitCriteria)
    is_text = isinstance(written, Scalar) and isinstance(written.value, str)
    if isinstance(written, Scalar) and is_text and when is None and compares(written.text, notation.knows):
        found["exit_when"] = notation.formula(written.text, content_at(written))
    elif written is not None and not is_null(written):
        found["exit"] = notation.template(written)
        if is_text:
            report_worded_exit(notation.reader, notation.text(written), content_at(written))
    return exits_of(**found)


def ai_ask_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    asking = _asking(notation, item)
    return actions.AiAsk(task=notation.template(tree), **asking, exits=_exits(notation, item), **common)


def ask_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    return actions.Ask(question=notation.template(tree), **_asking(notation, item), **common)


def think_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    return actions.AiThink(task=notation.template(tree), outputs=_outputs(notation, item), **common)


def take_only_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    """Read `output` alone: values to extract from the conversation so far."""
    items = outputs(notation, tree, item.take("tolist", "to_list", "toList"))
    return actions.AiThink(task=Template("", tree.at), outputs=items, **common)


def user_say_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    if isinstance(tree, Sequence) and tree.items:
        for other in tree.items[1:]:
            message = f"only one reply can be suggested; {shorten(notation.text(other))} is ignored"
            notation.refuse("TYPE_MISMATCH", message, other.at, "Write `user_option: VARIABLE` with `choices`.")
        tree = tree.items[0]
    return actions.UserSay(text=notation.template(tree), **common)


def set_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action | None:
    value = item.take("value", "to", "as", "=")
    pairs = [pair for each in as_items(tree) for pair in _read_assignments(notation, each, value)]
    if not pairs:
        notation.lacks("`value` is missing; the variable would not be set", item.at, "Add `value:`.")
        return None
    found: dict[str, Expression] = {}
    for name, value_tree in pairs:
        variable = notation.variable(name)
        if variable in found:
            fix = "Set it once, or in a separate `set`."
            notation.refuse("KEY_CONFLICT", f"`{variable}` is set twice in one action", name.at, fix)
        if isinstance(value_tree, Scalar) and value_tree.text[:1] == "+" and isinstance(value_tree.value, int | float):
            number = value_tree.text[1:]
            message = f"`+{number}` is the number {number}, and adds nothing to `{variable}`"
            fix = f'To add, write `"{{{variable}}} + {number}"`.'
            notation.reader.add("SIGN_IGNORED", message, value_tree.at, fix)
        found[variable] = notation.value_expression(value_tree)
    return actions.Set(assignments=found, **common)


_ASSIGNMENT = re.compile(r"\s*([^=]+?)\s*([-+*/]?)=(?!=)\s*(.*)", re.DOTALL)


def _read_assignments(notation: StageReader, tree: Tree, value: Tree | None) -> list[tuple[Tree, Tree]]:
    """Read ``NAME`` with a value beside it, ``NAME = value``, ``{var: NAME, value: …}``, or ``{NAME: …}`` for each."""
    parts = re.split(r"[,，;；]", tree.text) if isinstance(tree, Scalar) and value is None else []
    if isinstance(tree, Scalar) and len(parts) > 1 and all(map(_ASSIGNMENT.fullmatch, parts)):
        return [pair for part in parts for pair in _read_assignments(notation, _part(tree, part), None)]
    if isinstance(tree, Scalar) and value is None and (found := _ASSIGNMENT.fullmatch(tree.text)) is not None:
        name, sign, text = found.groups()
        if sign:
            fix = f'Write `set: {{{bare(name)}: "{{{bare(name)}}} {sign} {text}"}}`.'
            notation.refuse("EXPRESSION_INVALID", f"`{sign}=` is not supported", tree.at, fix)
        return [(_part(tree, name), _part(tree, text))]
    if isinstance(tree, Mapping) and tree.get("value") is not None and {"var", "name", "get", "set"} & set(tree.keys()):
        inner = Item(notation, tree)
        target, value = inner.take("var", "name", "get", "set"), inner.take("value")
        inner.take("define", "desc")
        inner.finish()
        return [(target, value)] if target is not None and value is not None else []
    if isinstance(tree, Mapping) and placeholder_of(tree) is None:
        if value is not None:
            fix = "Write the value after the variable: `set: {NAME: VALUE}`."
            notation.refuse("KEY_CONFLICT", "`set` and `value` both contain values", value.at, fix)
        return list(tree.pairs)
    return [(tree, value)] if value is not None else []


def _part(tree: Scalar, text: str) -> Scalar:
    return Scalar(text.strip(), True, tree.at, tree.is_block)


def form_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    inner = Item(notation, tree) if isinstance(tree, Mapping) and placeholder_of(tree) is None else None
    name = notation.word(tree) if inner is None else inner.word("form", "name")
    rounds = notation.number(item.take("max_rounds", "max_round", "rounds"), 0, ROUNDS_MAX)
    if inner is not None:
        inner.finish()
    return actions.Form(sheet=node_id(name), max_rounds=rounds or actions.ROUNDS_DEFAULT, **common)


def show_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action | None:
    inner = Item(notation, tree) if isinstance(tree, Mapping) else item
    image = inner.template("image", "pic", "src", "picture")
    if inner is item and image is None:
        image = notation.template(tree)
    url, caption = inner.template("url", "link"), inner.template("caption", "text", "desc")
    if inner is not item:
        inner.finish()
    if image is None and url is None:
        notation.lacks("`show` has no picture", tree.at, "Add `image:`.")
        return None
    return actions.Show(media=actions.Media(image=image, url=url, caption=caption, at=tree.at), **common)


def scene(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    """Read a scene: who speaks from here on; the scene's name becomes the id of its action."""
    if isinstance(tree, Mapping):
        inner = Item(notation, tree)
        named, speakers = node_id(inner.word("name", "scene")), _speakers(inner, tree)
        inner.finish()
    else:
        named, speakers = node_id(notation.word(tree)), _speakers(item, tree)
    if named and named != common.get("id", named):
        notation.slip("KEY_IGNORED", "the `id` of the scene is used instead of its name", item.at)
    return actions.Scene(speakers=speakers, **{"id": named, **common})


def _speakers(item: Item, tree: Tree) -> actions.Speakers:
    return actions.Speakers(ai=item.word("ai", "AI"), human=item.word("human", "HUMAN", "user"), at=tree.at)


def chat_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    rounds = notation.number(item.take("max_rounds"), 1, actions.CHAT_ROUNDS_MAX) or ROUNDS_MAX
    return actions.Chat(task=notation.template(tree), max_rounds=rounds, exits=_exits(notation, item), **common)


def emit_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    inner = Item(notation, tree) if isinstance(tree, Mapping) else item
    named = inner.word("event", "name") if inner is not item else notation.word(tree)
    data = inner.take("data", "value")
    if inner is not item:
        inner.finish()
    event = event_name(named) or "event"
    if event != named:
        message = f"the name of an event must be a single word; this one is renamed to `{event}`"
        notation.slip("ID_INVALID", message, tree.at)
    data_fields = {key.text: notation.value_expression(value) for key, value in pairs_of(data)}
    if data is not None and not isinstance(data, Mapping):
        data_fields = {"value": notation.value_expression(data)}
    return actions.Emit(signal=actions.Signal(event=event, data=data_fields, at=tree.at), **common)


def goto_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    if isinstance(tree, Mapping):
        inner = Item(notation, tree)
        parts = [inner.word("stage", "phase"), inner.word("goal", "topic")]
        inner.finish()
        return actions.Goto(target="/".join(node_id(part) for part in parts if part), **common)
    return actions.Goto(target=notation.word(tree), **common)


def end_of(notation: StageReader, item: Item, tree: Tree, common: dict[str, Any]) -> actions.Action:
    reason = notation.word(tree)
    return actions.End(ending=None if reason.lower() in {"", "true"} else actions.Ending(reason=reason), **common)
