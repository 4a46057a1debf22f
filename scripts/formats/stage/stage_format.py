"""The stage format: ``sessions: [{session, stages: [{stage, steps}]}]``, with its conditions and include files."""

import itertools
from collections.abc import Iterator

from msgspec.structs import replace

from scripts.expressions.values import shorten
from scripts.formats.placeholders import report_globals
from scripts.formats.stage.keywords import BLOCKS, DO, FOREACH, KINDS
from scripts.formats.stage.names import Names, names_of, node_id
from scripts.formats.stage.outputs import declarations
from scripts.formats.stage.sections import with_sections
from scripts.formats.stage.stage_actions import actions_of, block
from scripts.formats.stage.stage_reader import Item, StageReader, entries
from scripts.formats.stage.verb_actions import scene
from scripts.formats.words import LOCALES, VERBS
from scripts.model.actions import Action
from scripts.model.base import Location, unused_name
from scripts.model.diagnostics import Problems
from scripts.model.script import LOCALE, SHARED, DefaultScope, IncludeFile, Locale, Phase, Script, Topic
from scripts.model.variables import Declaration
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, is_null

_STAGES = ("stages", "phases", "stage", "phase")
_STEPS = ("steps", "goals", "topics")
_AIMS = ("target", "aim", "purpose", "define", "desc", "description")
_GOAL_KEYS = ("goal", "topic")
_SCENE = frozenset({"scene", "ai", "human"})


def recognises(tree: Tree | None) -> bool:
    """Return whether a file has this format."""
    if not isinstance(tree, Mapping) or tree.get("script") is not None:
        return False
    return isinstance(tree.get("sessions"), Sequence | Mapping) or tree.get("stages") is not None


def read(tree: Mapping, reader: Reader, outside: Names) -> Script | None:
    """Read the script, or None; the reader collects the problems. `outside` are the variables of its include files.

    The file is read twice: first to collect its variables, because the meaning of a placeholder depends on them.
    """
    draft = _Translator(StageReader(Reader(Problems(reader.problems.file), lenient=True), outside)).script(tree)
    names = names_of(draft).with_others(outside) if draft is not None else outside
    return _Translator(StageReader(reader, names)).script(tree)


class _Translator:
    """Converts a file to the model."""

    def __init__(self, notation: StageReader) -> None:
        self.notation = notation

    def script(self, tree: Mapping) -> Script | None:
        report_globals(self.notation.reader, tree)
        document = Item(self.notation, tree)
        sessions = entries(document.take("sessions")) or ((tree,) if "stages" in document else ())
        first = next((each for each in sessions if isinstance(each, Mapping)), None)
        if first is None:
            self.notation.reader.add("REQUIRED_FIELD_MISSING", "`sessions` is empty", tree.at)
            return None
        for other in sessions:
            if other is not first and not is_null(other):
                message = "a script has only one session; this one would not run"
                self.notation.refuse("TYPE_MISMATCH", message, other.at, "Write each session to a separate file.")
        session = Item(self.notation, first)
        script = self.session(session, document if first is not tree else session)
        session.finish()
        if first is not tree:
            document.finish()
        return script

    def session(self, session: Item, document: Item) -> Script:
        name = session.word("session", "name", "id") or "session"
        title = session.word("title", "session_name") or document.word("title", "name")
        stages = session.take(*_STAGES) if "stages" in session or "phases" in session else None
        steps = session.take(*_STEPS) if stages is None else None
        side = self.sections(session, document)
        declared = declarations(self.notation, session.take("declare", "variables"))
        return Script(
            id=node_id(name),
            title=title,
            version=session.word("version") or document.word("version"),
            description=session.word("define", "desc", "description", "goal") or document.word("desc", "description"),
            author=session.word("author") or document.word("author"),
            locale=self.locale(session.take("locale", "language") or document.take("locale", "language")),
            default_scope=self.scope(session.take("default_scope") or document.take("default_scope")),
            template_scheme=session.word("template_scheme"),
            use=(*self.files_used(document), *self.files_used(session)),
            declare=(*declared, *self.others(session, document, {each.var for each in declared})),
            phases=self.phases(stages) if stages is not None else self.only_phase(name, steps, session.at),
            form="stage",
            at=session.at,
            marks={**session.marks, "script": session.marks.get("session", session.at)},
            **{key: getattr(side, key) for key in SHARED},
        )

    def scope(self, tree: Tree | None) -> DefaultScope:
        written = self.notation.word(tree).lower()
        if tree is not None and written not in {"", "topic", "session"}:
            self.notation.refuse("ENUM_VALUE_INVALID", f"expected topic or session, found {shorten(written)}", tree.at)
        return "topic" if written == "topic" else "session"

    def locale(self, tree: Tree | None) -> Locale | None:
        """Return the language tag, also if it is written with underscores or as a word; None if it is not a tag."""
        tag = self.notation.word(tree).replace("_", "-")
        if (known := LOCALES.get(tag.casefold())) is not None:
            return known
        if tree is not None and tag and not LOCALE.match(tag):
            self.notation.slip("LOCALE_INVALID", f"{shorten(tag)} is not a language tag; the script has none", tree.at)
            return None
        return (tag if "-" in tag else tag.casefold()) or None

    def files_used(self, item: Item) -> tuple[str, ...]:
        return self.notation.words(item.take("use", "include", "import"))

    def others(self, session: Item, document: Item, used_ids: set[str]) -> Iterator[Declaration]:
        """Read the other declarations in the file as session variables; global variables are in a separate file."""
        found = document.take("declare") if "declare" in document else None
        for tree in (found, session.take("global", "globals"), document.take("global", "globals")):
            for each in declarations(self.notation, tree, are_values=tree is not found):
                if each.var in used_ids:
                    what = "is declared twice, in the session and beside it; the one in the session is used"
                    self.notation.slip("DUPLICATE_DECLARATION", f"{each.var} {what}", each.at)
                else:
                    used_ids.add(each.var)
                    yield each

    def sections(self, session: Item, document: Item) -> IncludeFile:
        found = IncludeFile()
        for item in (session, document):
            found = with_sections(self.notation, item, ("skills", "roles", "forms", "rules"), found)
        return found

    # -- stages -----------------------------------------------------------------------------------------------------

    def phases(self, tree: Tree | None) -> tuple[Phase, ...]:
        used_ids: set[str] = set()
        found = []
        for each in entries(tree):
            if isinstance(each, Mapping):
                found.append(self.phase(each, used_ids))
            elif not is_null(each):
                self.notation.refuse("TYPE_MISMATCH", "expected a stage with `steps`", each.at)
        return tuple(found)

    def phase(self, tree: Mapping, used_ids: set[str]) -> Phase:
        item = Item(self.notation, tree)
        name, title = self.unique_id(item.word("stage", "phase", "name", "id"), "stage", used_ids, tree.at)
        declared = declarations(self.notation, item.take("declare", "variables"))
        condition = self.notation.condition(item.take("when", "if", "condition"))
        goal = item.word(*_AIMS, "goal")
        steps = [*entries(item.take(*_STEPS))]
        if (beside := item.take_pairs(_SCENE)) is not None:
            steps.insert(0, beside)
        if "actions" in item or "do" in item:
            steps.append(Mapping(tuple(pair for pair in tree.pairs if pair[0].text in DO), tree.at))
            item.take(*DO)
        phase = Phase(
            id=name,
            title=item.word("title") or title,
            goal=goal,
            when=condition,
            declare=declared,
            topics=self.topics(steps),
            at=tree.at,
            marks={**item.marks, "phase": item.marks.get("stage", tree.at)},
        )
        item.finish()
        return phase

    def only_phase(self, name: str, steps: Tree | None, at: Location) -> tuple[Phase, ...]:
        topics = self.topics(list(entries(steps)))
        return (Phase(id=node_id(name), topics=topics, at=at),) if topics else ()

    def unique_id(self, written: str, kind: str, used_ids: set[str], at: Location) -> tuple[str, str]:
        """Return a unique id for the name of a stage or goal, and its title if it differs."""
        wanted = node_id(written)[:200].strip()
        if wanted in used_ids:
            self.notation.slip("DUPLICATE_ID", f"duplicate {kind} {wanted}; a number is added to this one", at)
        numbered = (f"{kind}_{number}" for number in itertools.count(1))
        found = unused_name(wanted, used_ids) if wanted else next(each for each in numbered if each not in used_ids)
        used_ids.add(found)
        return found, "" if written in {found, ""} else written

    # -- steps ------------------------------------------------------------------------------------------------------

    def topics(self, steps: list[Tree]) -> tuple[Topic, ...]:
        """Read the goals of a stage. A scene between goals starts the next one; actions without a goal get one."""
        used_ids: set[str] = set()
        found: list[Topic] = []
        waiting: list[Action] = []  # scenes without a goal
        loose: list[Action] = []
        for each in (*steps, None):
            if isinstance(each, Mapping) and _is_scene(each):
                found += self.loose_topic(loose, waiting, used_ids)
                waiting.append(self.scene(each))
            elif isinstance(each, Mapping) and not _is_goal(each):
                self.notation.slip("TYPE_MISMATCH", "an action outside of a goal; a goal is added", each.at)
                loose += actions_of(self.notation, each)
            elif isinstance(each, Mapping):
                found += self.loose_topic(loose, waiting, used_ids)
                found.append(self.topic(each, used_ids, waiting))
            elif each is None:
                found += self.loose_topic(loose, waiting, used_ids)
            elif not isinstance(each, Scalar) or each.value is not None:
                self.notation.refuse("TYPE_MISMATCH", "expected a goal with `actions`", each.at)
        if waiting:  # it sets the speakers after the stage
            at = waiting[0].at
            name, _ = self.unique_id("", "scene", used_ids, at)
            found.append(Topic(id=name, actions=tuple(waiting), at=at, marks={"topic": at}))
        return tuple(found)

    def scene(self, tree: Mapping) -> Action:
        item = Item(self.notation, tree)
        unique_id = (item.take("scene") if "scene" in item else None) or Scalar("", True, tree.at)
        when = self.notation.condition(item.take("when", "if", "condition"))
        found = scene(self.notation, item, unique_id, {"when": when})
        item.finish()
        return replace(found, at=tree.at, marks={"scene": tree.at, "id": tree.at})

    def loose_topic(self, loose: list[Action], waiting: list[Action], used_ids: set[str]) -> list[Topic]:
        if not loose:
            return []
        at = loose[0].at
        name, _ = self.unique_id("", "goal", used_ids, at)
        actions = (*waiting, *loose)
        loose.clear()
        waiting.clear()
        return [Topic(id=name, actions=actions, at=at, marks={"topic": at})]

    def topic(self, tree: Mapping, used_ids: set[str], waiting: list[Action]) -> Topic:
        item = Item(self.notation, tree)
        if (beside := item.take_pairs(_SCENE)) is not None:
            waiting.append(self.scene(beside))
        name, title = self.unique_id(item.word("goal", "topic", "name", "id"), "goal", used_ids, tree.at)
        declared = declarations(self.notation, item.take("declare", "variables"))
        actions = block(self.notation, item.take("actions", *DO))
        loops = [key for key in ("loop_until", *FOREACH) if key in item]
        if loops:  # a goal that is a loop
            pairs = tuple(pair for pair in tree.pairs if pair[0].text in {*loops, "as", "max", *DO})
            actions = tuple(actions_of(self.notation, Mapping(pairs, tree.at)))
            for key, _ in pairs:
                item.take(key.text)
        topic = Topic(
            id=name,
            title=item.word("title") or title,
            goal=item.word(*_AIMS),
            strategy=item.word("strategy"),
            when=self.notation.condition(item.take("when", "if", "condition")),
            declare=declared,
            actions=(*waiting, *actions),
            at=tree.at,
            marks={**item.marks, "topic": item.marks.get("goal", tree.at), "goal": item.marks.get(_AIMS[0], tree.at)},
        )
        waiting.clear()
        item.finish()
        return topic


def _is_scene(tree: Mapping) -> bool:
    keys = set(tree.keys())
    return bool(keys & _SCENE) and not keys & {*_GOAL_KEYS, "actions", "do"}


def _is_goal(tree: Mapping) -> bool:
    keys = set(tree.keys())
    return bool(keys & {*_GOAL_KEYS, "actions"}) or not keys & {*VERBS, *BLOCKS, *KINDS}
