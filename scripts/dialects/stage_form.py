"""The stage form: ``sessions: [{session, stages: [{stage, steps}]}]``, with its conditions and side files."""

import itertools
from collections.abc import Iterator

import msgspec

from scripts.actions import Action
from scripts.brought import SideFile
from scripts.diagnostics import Problems
from scripts.dialects.stage_actions import actions_of, block
from scripts.dialects.stage_keys import Item, Notation, mappings
from scripts.dialects.stage_names import Names, names_of
from scripts.dialects.stage_sections import natives, section
from scripts.dialects.stage_values import declarations
from scripts.dialects.stage_verbs import scene
from scripts.dialects.stage_words import BLOCKS, DO, FOREACH, KINDS, VERBS
from scripts.model import LOCALE, DefaultScope, Locale, Phase, Script, Topic
from scripts.nodes import Location
from scripts.reader import Reader
from scripts.source import Mapping, Scalar, Sequence, Tree
from scripts.variables import Declaration

_SECTIONS = ("skills", "roles", "forms", "rules")
_STAGES = ("stages", "phases", "stage", "phase")
_STEPS = ("steps", "goals", "topics")
_AIMS = ("target", "aim", "purpose", "define", "desc", "description")
_LOCALES: dict[str, Locale] = {"zh-cn": "zh", "en-us": "en"}  # what the form's own makers write for the two
_GOAL_KEYS = ("goal", "topic")


def recognises(tree: Tree | None) -> bool:
    """Whether a file is meant to be in this form."""
    if not isinstance(tree, Mapping) or tree.get("script") is not None:
        return False
    sessions = tree.get("sessions")
    if isinstance(sessions, Sequence):
        return True
    return isinstance(sessions, Mapping) or tree.get("stages") is not None


def read(tree: Mapping, reader: Reader) -> Script | None:
    """The script, or None; what is wrong is with the reader.

    It is read twice: the first time to learn which variables it has, for what a placeholder means depends on them.
    """
    draft = _Translator(Notation(Reader(Problems(reader.problems.file), lenient=True), Names())).script(tree)
    return _Translator(Notation(reader, names_of(draft) if draft is not None else Names())).script(tree)


def _locale(written: str) -> Locale | None:
    """The language tag that is written, also with underscores; None for what is no tag."""
    tag = written.strip().replace("_", "-")
    if not LOCALE.match(tag):
        return None
    return _LOCALES.get(tag.casefold(), tag if "-" in tag else tag.casefold())


class _Translator:
    """Turns what was written into the model."""

    def __init__(self, notation: Notation) -> None:
        self.notation = notation

    def script(self, tree: Mapping) -> Script | None:
        document = Item(self.notation, tree)
        sessions = mappings(document.take("sessions")) or ((tree,) if "stages" in document else ())
        first = next((each for each in sessions if isinstance(each, Mapping)), None)
        if first is None:
            self.notation.reader.add("REQUIRED_FIELD_MISSING", "`sessions` holds no session", tree.at)
            return None
        for other in sessions:
            if other is not first:
                message = "a script is one session; this one would not be run"
                self.notation.refuse("TYPE_MISMATCH", message, other.at, "Put each session into a file of its own.")
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
            id=self.notation.id(name),
            title=title,
            version=session.word("version") or document.word("version"),
            description=session.word("define", "desc", "description", "goal") or document.word("desc", "description"),
            author=session.word("author") or document.word("author"),
            locale=_locale(session.word("locale", "language") or document.word("locale", "language")),
            default_scope=self.scope(session),
            template_scheme=session.word("template_scheme"),
            use=(*self.used(document), *self.used(session)),
            declare=(*declared, *self.of_document(document, {each.var for each in declared})),
            phases=self.phases(stages) if stages is not None else self.only_phase(name, steps, session.at),
            skills=side.skills,
            roles=side.roles,
            forms=side.forms,
            interrupts=side.interrupts,
            repairs=side.repairs,
            detectors=side.detectors,
            form="stage",
            at=session.at,
            marks={**session.marks, "script": session.marks.get("session", session.at)},
        )

    def scope(self, session: Item) -> DefaultScope:
        return "topic" if session.word("default_scope") == "topic" else "session"

    def used(self, item: Item) -> tuple[str, ...]:
        tree = item.take("use", "include", "import")
        names = tree.items if isinstance(tree, Sequence) else (tree,) if tree is not None else ()
        return tuple(self.notation.word(each) for each in names)

    def of_document(self, document: Item, taken: set[str]) -> Iterator[Declaration]:
        """What stands beside the sessions is declared for the session; globals proper have a file of their own."""
        found = document.take("declare") if "declare" in document else None
        for tree in (found, document.take("global", "globals")):
            for each in declarations(self.notation, tree):
                if each.var in taken:
                    message = f"{each.var} is declared twice, by the session and beside it; the session counts"
                    self.notation.slip("DUPLICATE_DECLARATION", message, each.at)
                else:
                    taken.add(each.var)
                    yield each

    def sections(self, session: Item, document: Item) -> SideFile:
        found = SideFile()
        for item in (session, document):
            for key in _SECTIONS:
                tree = item.take(key) if key in item else None
                found = section(self.notation, key, tree, found) if tree is not None else found
            found = natives(self.notation, item, found)
        return found

    # -- stages -----------------------------------------------------------------------------------------------------

    def phases(self, tree: Tree | None) -> tuple[Phase, ...]:
        taken: set[str] = set()
        found = []
        for each in mappings(tree):
            if isinstance(each, Mapping):
                found.append(self.phase(each, taken))
            elif not (isinstance(each, Scalar) and each.value is None):
                self.notation.refuse("TYPE_MISMATCH", "expected a stage with `steps`", each.at)
        return tuple(found)

    def phase(self, tree: Mapping, taken: set[str]) -> Phase:
        item = Item(self.notation, tree)
        name, title = self.named(item.word("stage", "phase", "name", "id"), "stage", taken, tree.at)
        declared = declarations(self.notation, item.take("declare", "variables"))
        condition = self.notation.condition(item.take("when", "if", "condition"))
        goal = item.word(*_AIMS, "goal")
        steps = [*mappings(item.take(*_STEPS))]
        beside = [pair for pair in tree.pairs if pair[0].text in {"scene", "ai", "human"} and pair[0].text in item]
        if beside:
            steps.insert(0, Mapping(tuple(beside), tree.at, len(beside)))
            for key, _ in beside:
                item.take(key.text)
        if "actions" in item or "do" in item:
            steps.append(Mapping(tuple(pair for pair in tree.pairs if pair[0].text in DO), tree.at, 1))
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
        topics = self.topics(list(mappings(steps)))
        return (Phase(id=self.notation.id(name), topics=topics, at=at),) if topics else ()

    def named(self, written: str, kind: str, taken: set[str], at: Location) -> tuple[str, str]:
        """The id of a stage or goal that is called so, other than those before it; and its title, if that differs."""
        wanted = self.notation.id(written)[:200].strip()
        if wanted in taken:
            self.notation.slip("DUPLICATE_ID", f"{kind} {wanted} stands here already; this one gets a number", at)
        found = wanted or f"{kind}_1"
        numbers = itertools.count(2)
        while found in taken:
            found = f"{wanted or kind}_{next(numbers)}"
        taken.add(found)
        return found, "" if written in {found, ""} else written

    # -- steps ------------------------------------------------------------------------------------------------------

    def topics(self, steps: list[Tree]) -> tuple[Topic, ...]:
        """The goals of a stage. A scene between two of them begins the next; actions without a goal get one."""
        taken: set[str] = set()
        found: list[Topic] = []
        waiting: list[Action] = []  # scenes without their goal
        loose: list[Action] = []
        for each in (*steps, None):
            if isinstance(each, Mapping) and _is_scene(each):
                found += self.loose_topic(loose, waiting, taken)
                waiting.append(self.scene(each))
            elif isinstance(each, Mapping) and not _is_goal(each):
                self.notation.slip("TYPE_MISMATCH", "an action outside of a goal; it gets one", each.at)
                loose += actions_of(self.notation, each)
            elif isinstance(each, Mapping):
                found += self.loose_topic(loose, waiting, taken)
                found.append(self.topic(each, taken, waiting))
            elif each is None:
                found += self.loose_topic(loose, waiting, taken)
            elif not isinstance(each, Scalar) or each.value is not None:
                self.notation.refuse("TYPE_MISMATCH", "expected a goal with `actions`", each.at)
        if waiting:  # it selects the speakers of what follows the stage
            name, _ = self.named("", "scene", taken, waiting[0].at)
            at = waiting[0].at
            found.append(Topic(id=name, actions=tuple(waiting), at=at, marks={"topic": at}))
        return tuple(found)

    def scene(self, tree: Mapping) -> Action:
        item = Item(self.notation, tree)
        named = item.take("scene") if "scene" in item else Scalar("", True, tree.at, tree.at.line)
        when = self.notation.condition(item.take("when", "if", "condition"))
        found = scene(self.notation, item, named or Scalar("", True, tree.at, 0), {"when": when})
        item.finish()
        return msgspec.structs.replace(found, at=tree.at, marks={"scene": tree.at, "id": tree.at})

    def loose_topic(self, loose: list[Action], waiting: list[Action], taken: set[str]) -> list[Topic]:
        if not loose:
            return []
        at = loose[0].at
        name, _ = self.named("", "goal", taken, at)
        actions = (*waiting, *loose)
        loose.clear()
        waiting.clear()
        return [Topic(id=name, actions=actions, at=at, marks={"topic": at})]

    def topic(self, tree: Mapping, taken: set[str], waiting: list[Action]) -> Topic:
        item = Item(self.notation, tree)
        beside = [pair for pair in tree.pairs if pair[0].text in {"scene", "ai", "human"}]
        if beside:
            waiting.append(self.scene(Mapping(tuple(beside), tree.at, len(beside))))
            for key, _ in beside:
                item.take(key.text)
        name, title = self.named(item.word("goal", "topic", "name", "id"), "goal", taken, tree.at)
        declared = declarations(self.notation, item.take("declare", "variables"))
        actions = block(self.notation, item.take("actions", *DO))
        loops = [key for key in ("loop_until", *FOREACH) if key in item]
        if loops:  # a goal that is a loop as a whole
            pairs = tuple(pair for pair in tree.pairs if pair[0].text in {*loops, "as", "max", *DO})
            actions = tuple(actions_of(self.notation, Mapping(pairs, tree.at, tree.size)))
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
            marks={**item.marks, "topic": item.marks.get("goal", tree.at)},
        )
        waiting.clear()
        item.finish()
        return topic


def _is_scene(tree: Mapping) -> bool:
    keys = set(tree.keys())
    return bool(keys & {"scene", "ai", "human"}) and not keys & {*_GOAL_KEYS, "actions", "do"}


def _is_goal(tree: Mapping) -> bool:
    keys = set(tree.keys())
    if keys & set(_GOAL_KEYS) or "actions" in keys:
        return True
    return not keys & {*VERBS, *BLOCKS, *KINDS}
