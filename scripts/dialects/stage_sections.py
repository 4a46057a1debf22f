"""What the side files of the stage form hold: `global`, `roles`, `skills`, `forms` and `rules`."""

from collections.abc import Iterator

import msgspec

from scripts.actions import Foreach, walk
from scripts.brought import SideFile
from scripts.diagnostics import Problems
from scripts.dialects.stage_actions import block
from scripts.dialects.stage_forms import sheet
from scripts.dialects.stage_keys import Item, Notation, mappings
from scripts.dialects.stage_names import Names, names_of, of_owner, variable_name
from scripts.dialects.stage_rules import rule
from scripts.dialects.stage_values import declarations
from scripts.dialects.stage_widgets import is_widget
from scripts.model import Parameter, Role, Script, Skill
from scripts.names import read_names
from scripts.reader import Reader
from scripts.source import Mapping as MappingTree
from scripts.source import Scalar, Sequence, Tree
from scripts.suggest import suggest
from scripts.values import Value
from scripts.variables import Declaration

KEYS = ("global", "globals", "skills", "roles", "forms", "rules")
_HUMANS = {"human", "user", "visitor", "client", "用户", "人"}
_ROLE_KEYS = ("role", "type", "name", "tone", "define", "desc", "pic")


def recognises(tree: MappingTree) -> bool:
    """Whether a side file is in this form rather than the native one."""
    if tree.get("rules") is not None or tree.get("global") is not None:
        return True
    skills, roles, forms = (_mappings(tree.get(key)) for key in ("skills", "roles", "forms"))
    if any(each.get("skill") is None and each.get("goal") is not None for each in skills):
        return True
    if any(set(each.keys()) - {*_ROLE_KEYS, "attributes"} for each in roles):
        return True
    fields = [field for each in forms for field in _mappings(each.get("fields"))]
    return any(each.get("form") is None for each in forms) or any(each.get("field") is None for each in fields)


def _mappings(tree: Tree | None) -> list[MappingTree]:
    return [each for each in mappings(tree) if isinstance(each, MappingTree)]


def read(tree: MappingTree, reader: Reader) -> SideFile:
    """What the file brings; what is wrong is with the reader."""
    draft = _read(tree, Notation(Reader(Problems(reader.problems.file), lenient=True), Names()))
    script = Script(
        id="", phases=(), skills=draft.skills, interrupts=draft.interrupts, globals=draft.globals, forms=draft.forms
    )
    return _read(tree, Notation(reader, names_of(script)))


def _read(tree: MappingTree, notation: Notation) -> SideFile:
    item = Item(notation, tree)
    found = SideFile(use=tuple(_uses(notation, item)), at=tree.at, marks=item.marks)
    for key in KEYS:
        part = item.take(key) if key in item else None
        found = section(notation, key, part, found) if part is not None else found
    found = natives(notation, item, found)
    item.finish()
    return found


def natives(notation: Notation, item: Item, found: SideFile) -> SideFile:
    """What was found, with the sections that this form has no words for: they are spelled as in the native form."""
    for key in ("interrupts", "repairs", "detectors"):
        part = item.take(key) if key in item else None
        if part is None:
            continue
        native = notation.reader.read(MappingTree(((_word(key, part), part),), item.at, 1), SideFile) or SideFile()
        found = msgspec.structs.replace(found, **{key: (*getattr(found, key), *getattr(native, key))})
    return found


def _word(text: str, near: Tree) -> Scalar:
    return Scalar(text, True, near.at, near.at.line)


def _uses(notation: Notation, item: Item) -> Iterator[str]:
    tree = item.take("use") if "use" in item else None
    for each in tree.items if isinstance(tree, Sequence) else (tree,) if tree is not None else ():
        yield notation.word(each)


def section(notation: Notation, key: str, tree: Tree, found: SideFile) -> SideFile:
    """What was found, with what one section adds."""
    match key:
        case "global" | "globals":
            return msgspec.structs.replace(found, globals=(*found.globals, *declarations(notation, tree)))
        case "skills":
            skills = [made for each in _named(notation, tree, "goal") if (made := skill(notation, each)) is not None]
            return msgspec.structs.replace(found, skills=(*found.skills, *skills))
        case "roles":
            roles = [role(notation, each) for each in _named(notation, tree, "role")]
            return msgspec.structs.replace(found, roles=(*found.roles, *roles))
        case "forms":
            sheets = [sheet(notation, each) for each in _with_fields(_named(notation, tree, "form"))]
            return msgspec.structs.replace(found, forms=(*found.forms, *sheets))
        case _:
            rules = [rule(notation, each) for each in _named(notation, tree, "rule")]
            return msgspec.structs.replace(found, interrupts=(*found.interrupts, *rules))


def _named(notation: Notation, tree: Tree, verb: str) -> Iterator[MappingTree]:
    """The mappings of a list, or those of a mapping by name; a name alone stands for a mapping with only that."""
    is_listed = verb == "form" and isinstance(tree, MappingTree) and tree.get(verb) is None
    kinds = (MappingTree, Sequence) if is_listed else (MappingTree,)
    if isinstance(tree, MappingTree) and all(isinstance(value, kinds) for _, value in tree.pairs):
        for key, value in tree.pairs:
            if isinstance(value, Sequence):  # of a form, its fields
                yield MappingTree(((_word(verb, key), key), (_word("fields", value), value)), key.at, 2)
            elif isinstance(value, MappingTree):
                head = (Scalar(verb, True, key.at, key.at.line), key)
                own = tuple(pair for pair in value.pairs if pair[0].text != verb)
                yield MappingTree((head, *own), key.at, value.size)
        return
    for each in mappings(tree):
        if isinstance(each, MappingTree):
            yield each
        elif isinstance(each, Scalar) and each.value is not None:
            yield MappingTree(((Scalar(verb, True, each.at, each.at.line), each),), each.at, 1)
        else:
            notation.refuse("TYPE_MISMATCH", f"expected a mapping with `{verb}`", each.at)


def _with_fields(trees: Iterator[MappingTree]) -> Iterator[MappingTree]:
    """The forms of a list. Widgets that stand beside a form rather than in it are fields of the form above."""
    form: MappingTree | None = None
    fields: list[Tree] = []
    for each in trees:
        if is_widget(each):
            fields.append(each)
            continue
        yield from _closed(form, fields)
        form, fields = each, []
    yield from _closed(form, fields)


def _closed(form: MappingTree | None, fields: list[Tree]) -> Iterator[MappingTree]:
    if not fields:
        yield from (form,) if form is not None else ()
        return
    at = form.at if form is not None else fields[0].at
    pair = (Scalar("fields", True, at, at.line), Sequence(tuple(fields), fields[0].at, len(fields)))
    pairs = (*(form.pairs if form is not None else ()), pair)
    yield MappingTree(pairs, at, len(pairs))


# -- skills -----------------------------------------------------------------------------------------------------------


def skill(notation: Notation, tree: MappingTree) -> Skill | None:
    """A skill: a goal whose declarations are its parameters. It returns what it takes or sets.

    What it reads beyond that are parameters too, for in this form a goal sees the variables of those who call it.
    """
    if tree.get("goal") is None and tree.get("skill") is not None and tree.get("params") is not None:
        return notation.reader.read(tree, Skill)
    item = Item(notation, tree)
    written = item.word("goal", "skill", "topic", "name", "id")
    params = [
        Parameter(**{name: getattr(each, name) for name in each.__struct_fields__}, required=False)
        for each in declarations(notation, item.take("declare", "params", "input"))
    ]
    returns = tuple(notation.variables(item.take("returns", "return", "output")))
    name = notation.id(written) or "skill"
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
    written_here = tuple(of_owner(found))
    loops = {action.loop.name for action in walk(found.actions) if isinstance(action, Foreach)}
    known = {each.var for each in params} | set(written_here) | loops
    read = dict.fromkeys(
        name for name in read_names(found.actions) if name not in known and variable_name(name) == name
    )
    params += [Parameter(var=name, required=False, at=tree.at) for name in read]
    # what it takes is its own until it is handed back, also where a global variable has the same name
    own = tuple(Declaration(var=name, at=tree.at) for name in written_here if name not in {each.var for each in params})
    return msgspec.structs.replace(found, params=tuple(params), declare=own, returns=returns or written_here)


# -- roles ------------------------------------------------------------------------------------------------------------


def role(notation: Notation, tree: MappingTree) -> Role:
    """A role; what the model has no place for are its attributes, for the application."""
    item = Item(notation, tree)
    written = item.word("role", "id")
    kind = item.word("type", "kind")
    found = Role(
        id=notation.id(written or item.word("name")) or "role",
        type="HUMAN" if kind.lower() in _HUMANS else "AI",
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
            message = f"`{key.text}` is kept for the application only"
            notation.reader.add("UNKNOWN_KEY", message, key.at, near, severity="warning")
        given = notation.value(value)
        attributes |= given if key.text == "attributes" and isinstance(given, dict) else {key.text: given}
    return msgspec.structs.replace(found, attributes=attributes)
