"""The consciousness form: a `consciousness` that is one detector, with `examples` of what it sees."""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from scripts.actions import Chat
from scripts.detectors.parts import Example, Rule
from scripts.dialects.consciousness_actions import acting
from scripts.dialects.consciousness_examples import example
from scripts.dialects.consciousness_parts import Collector, id_of, number_of, pass_over, texts_in
from scripts.model import LOOK_BACK_MAX, Detector, Phase, Script, Topic
from scripts.nodes import Location, Node, Template
from scripts.reader import Reader
from scripts.source import Mapping as MappingTree
from scripts.source import Scalar, Tree
from scripts.source import Sequence as SequenceTree

CRISIS = "crisis"
_PARTS = {"trigger_config", "detection_config", "output_config", "safety_baseline"}
_IDS = ("consciousness_id", "id")
_NAMES = ("consciousness_name", "name", "title")
_METADATA = {"name", "version", "author", "description"}
_BOTH = re.compile(r"both|every|each|any_message|all")
_ASSISTANT = re.compile(r"(after|before|on)_(ai|assistant|bot|response|reply|output)")


def recognises(tree: MappingTree) -> bool:
    """Whether a file is meant to be in this form."""
    return isinstance(tree.get("consciousness"), MappingTree)


def holds_detectors(tree: MappingTree) -> bool:
    """Whether a file is a native side file with detectors only."""
    return tree.get("detectors") is not None and set(tree.keys()) <= {"detectors", "use"}


def read(tree: MappingTree, reader: Reader) -> Detector | None:
    """The detector, or None; what is wrong is with the reader."""
    body = tree.get("consciousness")
    if not isinstance(body, MappingTree):
        return None
    return _Reading(tree, body, reader).detector()


def read_as_script(tree: MappingTree, reader: Reader) -> Script | None:
    """A script that lets the user talk freely while the detector listens."""
    detector = read(tree, reader)
    if detector is None:
        return None
    metadata = tree.get("metadata")
    about = {key: value.text for key, value in _held(metadata).items() if isinstance(value, Scalar)}
    script = listening((detector,), tree.at)
    return structs.replace(
        script,
        title=detector.title,
        version=about.get("version", ""),
        author=about.get("author", ""),
        description=about.get("description", ""),
        form="consciousness",
        marks={"script": detector.mark("detector")},
    )


class _File(Node, frozen=True, kw_only=True):
    detectors: tuple[Detector, ...]
    use: tuple[str, ...] = ()


def read_detectors(tree: MappingTree, reader: Reader) -> Script | None:
    """A native file of detectors as a script that lets the user talk freely while they listen."""
    file = reader.read(tree, _File)
    if file is not None and not file.detectors:
        reader.add("NO_ACTIONS", "there is no detector in this file", tree.at, severity="error")
    if file is None or not file.detectors:
        return None
    return structs.replace(listening(file.detectors, tree.at), use=file.use, form="detectors", marks=file.marks)


def listening(detectors: tuple[Detector, ...], at: Location) -> Script:
    """A free conversation under the eyes of some detectors, to try them out."""
    chat = Chat(id="talk", task=Template("", at), at=at)
    topic = Topic(id="talk", actions=(chat,), at=at)
    phase = Phase(id="listen", topics=(topic,), at=at)
    return Script(id=detectors[0].id, default_scope="session", phases=(phase,), detectors=detectors, at=at)


def _held(tree: Tree | None) -> Mapping[str, Tree]:
    return {key.text: value for key, value in tree.pairs} if isinstance(tree, MappingTree) else {}


class _Watching(Struct):
    """The settings of a detector, while they are read."""

    on: str = "user"
    cooldown: int = 0
    look_back: int = 10
    min_messages: int = 1
    on_failure: str = "none"


class _Reading:
    """Reads one file."""

    def __init__(self, tree: MappingTree, body: MappingTree, reader: Reader) -> None:
        self._tree = tree
        self._body = body
        self._reader = reader
        self._watching = _Watching()
        self._collector = Collector(reader)

    def detector(self) -> Detector | None:
        body = _held(self._body)
        metadata = _held(self._tree.get("metadata"))
        named = next((body[key] for key in _IDS if isinstance(body.get(key), Scalar)), None)
        titled = [each[key] for each in (body, metadata) for key in _NAMES if isinstance(each.get(key), Scalar)]
        name = named or (titled[0] if titled else None)
        if not isinstance(name, Scalar) or not name.text.strip():
            fix = "Add `consciousness_id:`."
            self._reader.add("REQUIRED_FIELD_MISSING", "`consciousness_id` is missing", self._body.at, fix)
            return None
        title = titled[0].text if titled and isinstance(titled[0], Scalar) else ""
        self._top(metadata)
        self._trigger(body.get("trigger_config"))
        self._detection(body.get("detection_config"))
        crisis_action = self._safety(body.get("safety_baseline"))
        for key, value in self._body.pairs:
            if key.text == "loading_config":
                self._pass_over_all(value)
            elif key.text not in _PARTS and key.text not in _IDS and key.text not in _NAMES:
                self._collector.take(key.text, value)
        parts = self._collector.parts
        detector = Detector(
            id=id_of(name.text),
            title=title,
            threshold=parts.threshold if parts.threshold is not None else 0.7,
            rules=tuple(parts.rules),
            measures=tuple(parts.measures),
            signs=tuple(parts.signs),
            patterns=tuple(parts.patterns),
            define=self._define(metadata),
            at=self._body.at,
            marks={"detector": name.at},
        )
        detector = structs.replace(detector, **structs.asdict(self._watching))
        acts = acting(self._outputs(body.get("output_config")), crisis_action, detector, self._reader, parts.labels)
        detector = structs.replace(detector, actions=acts.actions, replace=acts.replace)
        return structs.replace(detector, examples=tuple(self._examples(detector)))

    def _define(self, metadata: Mapping[str, Tree]) -> str:
        about = metadata.get("description")
        head = [about.text] if isinstance(about, Scalar) and about.value is not None else []
        return "\n".join([*head, *self._collector.parts.lines])

    def _top(self, metadata: Mapping[str, Tree]) -> None:
        for key, _ in self._tree.pairs:
            if key.text not in {"metadata", "consciousness", "examples"}:
                severity = "warning" if self._reader.lenient else None
                self._reader.add("UNKNOWN_KEY", f"`{key.text}` means nothing here", key.at, severity=severity)
        for key_text, value in metadata.items():
            if key_text not in _METADATA:
                pass_over(self._reader, key_text, value)

    def _pass_over_all(self, tree: Tree) -> None:
        for key, value in tree.pairs if isinstance(tree, MappingTree) else ():
            pass_over(self._reader, key.text, value)

    # -- when it looks --------------------------------------------------------------------------------------------

    def _trigger(self, tree: Tree | None) -> None:
        for key, value in self._flat(tree):
            number = number_of(value)
            word = value.text.casefold() if isinstance(value, Scalar) else ""
            if "timing" in key:
                self._timing(key, value, word)
            elif key.startswith("cooldown") and number is not None:
                self._watching.cooldown = int(min(max(number, 0), 1_000))
            elif "lookback" in key or "look_back" in key or key in {"window_size", "max_messages"}:
                self._watching.look_back = int(min(max(number or 10, 1), LOOK_BACK_MAX))
            elif key.startswith("min") and "message" in key:
                self._watching.min_messages = int(min(max(number or 1, 1), LOOK_BACK_MAX))
            else:
                pass_over(self._reader, key, value)
        self._watching.look_back = max(self._watching.look_back, self._watching.min_messages)

    def _timing(self, key: str, value: Tree, word: str) -> None:
        if _BOTH.search(word):
            self._watching.on = "both"
        elif _ASSISTANT.search(word):
            self._watching.on = "assistant"
        elif "user" not in word:
            message = f"`{key}`: the detector looks at each of the user's messages"
            self._reader.add("KEY_IGNORED", message, value.at)

    def _flat(self, tree: Tree | None) -> Iterator[tuple[str, Tree]]:
        """The pairs of a mapping and of those inside it."""
        for key, value in tree.pairs if isinstance(tree, MappingTree) else ():
            if isinstance(value, MappingTree):
                yield from self._flat(value)
            else:
                yield key.text, value

    # -- what it looks for ----------------------------------------------------------------------------------------

    def _detection(self, tree: Tree | None) -> None:
        pairs = tree.pairs if isinstance(tree, MappingTree) else ()
        for key, value in sorted(pairs, key=lambda pair: not _has_measures(pair[1])):  # signs and patterns need them
            self._collector.take(key.text, value)

    def _safety(self, tree: Tree | None) -> Scalar | None:
        """Takes the words that always count; what is done when one is said."""
        action: Scalar | None = None
        for key, value in _held(tree).items():
            if "keyword" in key:
                action = self._crisis(_held(value)) if isinstance(value, MappingTree) else self._crisis({key: value})
            elif isinstance(value, MappingTree) and ("failure" in key or "fallback" in key):
                for inner, given in self._flat(value):
                    word = given.text if isinstance(given, Scalar) else ""
                    if "fallback" in inner and word in {"use_previous", "none", "skip", "ignore"}:
                        self._watching.on_failure = "use_previous" if word == "use_previous" else "none"
                    else:
                        pass_over(self._reader, inner, given)
            else:
                self._collector.take(key, value, "safety")
        return action

    def _crisis(self, held: Mapping[str, Tree]) -> Scalar | None:
        enabled = held.get("enabled")
        action: Scalar | None = None
        for key, value in held.items():
            words = texts_in(value) if isinstance(value, SequenceTree) else []
            if isinstance(enabled, Scalar) and enabled.value is False and words:
                pass_over(self._reader, key, value)
            elif words:
                rule = Rule(words=tuple(each.text for each in words), label=CRISIS, always=True, at=value.at)
                self._collector.parts.rules.insert(0, rule)
            elif "action" in key and isinstance(value, Scalar):
                action = value
            elif key != "enabled":
                pass_over(self._reader, key, value)
        return action

    # -- what it does ---------------------------------------------------------------------------------------------

    def _outputs(self, tree: Tree | None) -> list[Tree]:
        actions: list[Tree] = []
        for key, value in _held(tree).items():
            if "action" in key:
                actions += value.items if isinstance(value, SequenceTree) else (value,)
            else:
                pass_over(self._reader, key, value)
        return actions

    def _examples(self, detector: Detector) -> Iterator[Example]:
        tree = self._tree.get("examples")
        for item in tree.items if isinstance(tree, SequenceTree) else ():
            found = example(item, detector, self._collector.parts.labels, self._reader)
            if found is not None:
                yield found


def _has_measures(tree: Tree) -> bool:
    items = tree.items if isinstance(tree, SequenceTree) else ()
    return any(isinstance(item, MappingTree) and item.get("range") is not None for item in items)
