"""The consciousness format: a `consciousness`, which is one detector, with `examples` of its results."""

import re
from collections.abc import Iterator
from collections.abc import Mapping as MappingType
from itertools import starmap
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from scripts.expressions.suggestions import snake_case
from scripts.formats.detector_config.expected_results import example
from scripts.formats.detector_config.parts import (
    CRISIS,
    REPLY_KEY,
    WORD_KEY,
    Collector,
    id_of,
    number_of,
    pass_over,
    severity_scale,
    words_in,
)
from scripts.formats.detector_config.responses import with_responses
from scripts.formats.words import DETECTOR_KEYS as KEYS
from scripts.model.actions import Chat
from scripts.model.base import Location, Node, Template
from scripts.model.detectors import Rule
from scripts.model.languages import LANGUAGE_KEY
from scripts.model.script import LOOK_BACK_MAX, Detector, Phase, Script, Topic
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, as_items, is_null, items_of, pairs_of, text_in, word
from scripts.yaml.unknown_keys import is_switched_off

_PARTS = {"trigger_config", "detection_config", "output_config", "safety_baseline"}
_NO_SEVERITIES = {"trigger_config", "output_config", "examples"}
_IDS = ("consciousness_id", "id")
_NAMES = ("consciousness_name", "name", "title")
_WORDS = frozenset[str]().union(*structs.astuple(KEYS))
_BOTH = re.compile(r"both|every|each|any_message|all|每|双方|所有")
_LIMITS = re.compile(r"condition|exclu|except|only|probab|phase|topic")  # keys that would narrow what it watches
_LOOK_BACK = re.compile(r"look_?back")
_TIME = re.compile(r"second|minute|hour|(^|_)m?s(ecs?)?$")
_CLOCK = re.compile(
    r"\d|second|minute|hour|(?<![a-z])da(y|ily)|night|morning|noon|evening|week|month|秒|分钟|小时|[早晚]上|[上中下]午|[天日周月]"
)
# what looks before the reply sees the user's message
_BEFORE_REPLY = re.compile(r"before_(the_)?(ai_|assistant_|bot_)?(respon|repl|answer|generat|turn)|回[复应答]之?前")
_ASSISTANT = re.compile(r"(after|before|on)_(ai|assistant|bot|response|reply|output)")


def recognises(tree: Mapping) -> bool:
    """Return whether a file has this format."""
    has_id = any(snake_case(key.text) == "consciousness_id" for key, _ in tree.pairs)
    return isinstance(tree.get("consciousness"), Mapping | Sequence) or has_id


def _bodies(tree: Mapping) -> tuple[Tree, ...]:
    """Return the detectors of a file, which may itself be one, without its metadata and examples."""
    written = tree.get("consciousness")
    if written is None:
        pairs = tuple(pair for pair in tree.pairs if pair[0].text not in {"metadata", "examples"})
        return (Mapping(pairs, tree.at),)
    return as_items(written)


def holds_detectors(tree: Mapping) -> bool:
    """Return whether a file is a native include file with detectors only."""
    return tree.get("detectors") is not None and set(tree.keys()) <= {"detectors", "use", LANGUAGE_KEY}


def read(tree: Mapping, reader: Reader) -> Detector | None:
    """Read the detector, or None; the reader collects the problems."""
    bodies = [_in_snake_case(each, reader) for each in _bodies(tree)]
    for other in bodies[1:]:
        reader.add("TYPE_MISMATCH", "a file has one detector", other.at, "Write each to a separate file.")
    body = bodies[0] if bodies else None
    return _DetectorReader(tree, body, reader).detector() if isinstance(body, Mapping) else None


def _in_snake_case(tree: Tree, reader: Reader) -> Tree:
    """Return a tree with the keys of this format in the usual casing: `triggerConfig` as `trigger_config`."""
    match tree:
        case Mapping():
            spelled = reader.in_snake_case(tree, _WORDS)
            return replace(spelled, pairs=tuple((key, _in_snake_case(value, reader)) for key, value in spelled.pairs))
        case Sequence():
            return replace(tree, items=tuple(_in_snake_case(each, reader) for each in tree.items))
        case _:
            return tree


def read_as_script(tree: Mapping, reader: Reader) -> Script | None:
    """Return a script with a free conversation that the detector watches."""
    detector = read(tree, reader)
    if detector is None:
        return None
    about = {key.text: value.text for key, value in pairs_of(tree.get("metadata")) if isinstance(value, Scalar)}
    script = replace(listening((detector,), tree.at), title=detector.title, form="consciousness")
    said = {key: about.get(key, "") for key in ("version", "author", "description")}
    return replace(script, **said, marks={"script": detector.mark("detector")})


class _File(Node, frozen=True, kw_only=True):
    detectors: tuple[Detector, ...]
    use: tuple[str, ...] = ()


def read_detectors(tree: Mapping, reader: Reader) -> Script | None:
    """Return a script with a free conversation that the detectors of a native file watch."""
    file = reader.read(tree, _File)
    if file is not None and not file.detectors and not reader.problems.fatal:
        reader.add("NO_ACTIONS", "the file contains no detector", tree.at, severity="error")
    if file is None or not file.detectors:
        return None
    return replace(listening(file.detectors, tree.at), use=file.use, form="detectors", marks=file.marks)


def listening(detectors: tuple[Detector, ...], at: Location) -> Script:
    """Return a free conversation that some detectors watch, to try them out."""
    chat = Chat(id="talk", task=Template("", at), at=at)
    topic = Topic(id="talk", actions=(chat,), at=at)
    phase = Phase(id="listen", topics=(topic,), at=at)
    return Script(id=detectors[0].id, default_scope="session", phases=(phase,), detectors=detectors, at=at)


def _values_by_key(tree: Tree | None) -> MappingType[str, Tree]:
    return {key.text: value for key, value in pairs_of(tree)}


class _DetectorReader:
    """Reads a file."""

    def __init__(self, tree: Mapping, body: Mapping, reader: Reader) -> None:
        self._tree = tree
        self._body = body
        self._reader = reader
        self._settings: dict[str, Any] = {}  # fields of the detector: when it looks, and what a failure does
        self._scale = severity_scale((value for key, value in body.pairs if key.text not in _NO_SEVERITIES), reader)
        self._collector = Collector(reader, self._scale)

    def detector(self) -> Detector | None:
        body = _values_by_key(self._body)
        metadata = _values_by_key(self._tree.get("metadata"))
        named = next((body[key] for key in _IDS if isinstance(body.get(key), Scalar)), None)
        titled = [each[key] for each in (body, metadata) for key in _NAMES if isinstance(each.get(key), Scalar)]
        name = named or (titled[0] if titled else None)
        if not isinstance(name, Scalar) or not name.text.strip():
            self._reader.missing("consciousness_id", self._body.at)
            return None
        self._collector.name = name.text
        title = titled[0].text if titled and isinstance(titled[0], Scalar) else ""
        self._top(metadata)
        self._trigger(body.get("trigger_config"))
        self._detection(body.get("detection_config"))
        crisis = self._safety(body.get("safety_baseline"))
        for key, value in self._body.pairs:
            if key.text == "loading_config":
                for inner, part in pairs_of(value):
                    pass_over(self._reader, inner.text, part)
            elif key.text not in {*_PARTS, *_IDS, *_NAMES, "examples"}:
                self._collector.take(key.text, value)
        collected = self._collector
        detector = Detector(
            id=id_of(name.text),
            title=title,
            threshold=collected.threshold,
            rules=tuple(collected.rules),
            measures=tuple(collected.measures),
            signs=tuple(collected.signs),
            patterns=tuple(collected.patterns),
            define=self._define(metadata),
            at=self._body.at,
            marks={"detector": name.at},
            **self._settings,
        )
        replies, outputs = list(starmap(_reply, collected.replies)), self._outputs(body.get("output_config"))
        detector = with_responses(detector, replies, crisis, outputs, self._reader, collected.labels, self._scale)
        listed_examples = items_of(self._tree.get("examples") or self._body.get("examples"))
        examples = [example(each, detector, collected.labels, self._reader) for each in listed_examples]
        return replace(detector, examples=tuple(each for each in examples if each is not None))

    def _define(self, metadata: MappingType[str, Tree]) -> str:
        about = metadata.get("description")
        head = [about.text] if isinstance(about, Scalar) and about.value is not None else []
        return "\n".join([*head, *self._collector.lines])

    def _top(self, metadata: MappingType[str, Tree]) -> None:
        for key, _ in self._tree.pairs if self._tree.get("consciousness") is not None else ():
            if key.text not in {"metadata", "consciousness", "examples"}:
                self._reader.slip("UNKNOWN_KEY", f"unknown key `{key.text}`", key.at)
        for key_text, value in metadata.items():
            if key_text not in {"name", "version", "author", "description"}:
                pass_over(self._reader, key_text, value)

    # -- when it looks --------------------------------------------------------------------------------------------

    def _trigger(self, tree: Tree | None) -> None:
        look_back, min_messages = 10, 1
        for key, value in self._flat(tree):
            number = number_of(value)
            word = value.text.casefold() if isinstance(value, Scalar) else ""
            if is_switched_off(key, value):
                pass_over(self._reader, key, value)
            elif "timing" in key:
                self._timing(key, value, word)
            elif key.startswith("cooldown") and (number is None or _TIME.search(key)):
                message = f"`{key}` has no effect: a cooldown is counted in messages of the user, not in time"
                self._reader.add("KEY_IGNORED", message, value.at, "Write `cooldown_rounds:` and a number of messages.")
            elif key.startswith("cooldown") and number is not None:
                self._settings["cooldown"] = int(min(max(number, 0), 1_000))
            elif (_LOOK_BACK.search(key) and not _TIME.search(key)) or key in {"window_size", "max_messages"}:
                look_back = int(min(max(number or 10, 1), LOOK_BACK_MAX))
            elif key.startswith("min") and "message" in key:
                min_messages = int(min(max(number or 1, 1), LOOK_BACK_MAX))
            elif _LIMITS.search(key) and not is_null(value):
                message = f"`{key}` has no effect: the detector looks at each of these messages"
                fix = "Write it as `condition:` of the actions in `trigger_actions`."
                self._reader.add("KEY_IGNORED", message, value.at, fix)
            else:
                pass_over(self._reader, key, value)
        self._settings |= {"look_back": max(look_back, min_messages), "min_messages": min_messages}

    def _timing(self, key: str, value: Tree, word: str) -> None:
        users = re.search(r"user|client|用户|来访", word) is not None
        assistants = re.search(r"(^|_)(ai|assistant|bot)(_|$)|助[手理]|机器人", word) is not None
        if _CLOCK.search(word):
            self._watches_messages(key, value)
        elif _BEFORE_REPLY.search(word):
            self._settings["on"] = "user"
        elif "both" in word or (_BOTH.search(word) and users == assistants):
            self._settings["on"] = "both"
        elif _ASSISTANT.search(word) or (assistants and not users):
            self._settings["on"] = "assistant"
        elif not users:
            self._watches_messages(key, value)

    def _watches_messages(self, key: str, value: Tree) -> None:
        message = f"`{key}`: the detector watches every message of the user"
        fix = "Write `after_user_message`, `after_ai_message` or `after_every_message`."
        self._reader.add("KEY_IGNORED", message, value.at, fix)

    def _flat(self, tree: Tree | None) -> Iterator[tuple[str, Tree]]:
        """Yield the pairs of a mapping and of nested mappings."""
        for key, value in pairs_of(tree):
            if isinstance(value, Mapping):
                yield from self._flat(value)
            else:
                yield key.text, value

    # -- what it looks for ----------------------------------------------------------------------------------------

    def _detection(self, tree: Tree | None) -> None:
        # measures first, because signs and patterns need them
        for key, value in sorted(pairs_of(tree), key=lambda pair: not _has_measures(pair[1])):
            self._collector.take(key.text, value)

    def _safety(self, tree: Tree | None) -> Scalar | None:
        """Read the words that always trigger the detector, and their actions."""
        action: Scalar | None = None
        for key, value in _values_by_key(tree).items():
            if "keyword" in key or CRISIS in key:
                action = self._crisis(_values_by_key(value) if isinstance(value, Mapping) else {key: value}) or action
            elif isinstance(value, Mapping) and ("failure" in key or "fallback" in key):
                for inner, value_tree in self._flat(value):
                    word = text_in(value_tree)
                    if "fallback" in inner and word in {"use_previous", "none", "skip", "ignore"}:
                        self._settings["on_failure"] = "use_previous" if word == "use_previous" else "none"
                    elif "fallback" in inner and word:
                        message = f"`{inner}: {word}` has no effect: without an answer of the model nothing is detected"
                        self._reader.add("KEY_IGNORED", message, value_tree.at, "Write `use_previous` or `none`.")
                    else:
                        pass_over(self._reader, inner, value_tree)
            else:
                self._collector.take(key, value, "safety")
        return action

    def _crisis(self, held: MappingType[str, Tree]) -> Scalar | None:
        """Read lists of words, also by category, and return the action for them."""
        is_off = any(is_switched_off(key, value) for key, value in held.items())
        action: Scalar | None = None
        for key, value in held.items():
            words = words_in(value) if isinstance(value, Sequence) or WORD_KEY.search(key) else []
            for item in items_of(value):
                if isinstance(item, Mapping) and not is_off and not words_in(item):
                    message = f"an item of `{key}` has no `word` or `phrase`, so nothing in it is watched"
                    self._reader.add("KEY_IGNORED", message, item.at, "Write each as a text, or as `word:` and a text.")
            if "action" in key and isinstance(value, Scalar):
                action = value
            elif REPLY_KEY.search(key) and isinstance(value, Scalar) and value.value is not None:
                self._collector.replies.append((CRISIS, value))
            elif isinstance(value, Mapping) and not is_off:
                action = self._crisis(_values_by_key(value)) or action
            elif words and not is_off:
                self._collector.rules.insert(0, Rule(words=tuple(words), label=CRISIS, always=True, at=value.at))
            elif key != "enabled" and not is_switched_off(key, value):
                pass_over(self._reader, key, value)
        return action

    # -- what it does ---------------------------------------------------------------------------------------------

    def _outputs(self, tree: Tree | None) -> list[Tree]:
        actions: list[Tree] = []
        for key, value in _values_by_key(tree).items():
            if "action" in key or key.startswith("on_"):
                actions += as_items(value)
            else:
                pass_over(self._reader, key, value)
        return actions


def _reply(label: str, text: Scalar) -> Tree:
    """Return the action that says the text of a label."""
    texts = {"action_type": word("say", text), "condition": word(f"label == '{label}'", text), "content": text}
    return Mapping(tuple((word(key, text), value) for key, value in texts.items()), text.at)


def _has_measures(tree: Tree) -> bool:
    return any(key.text == "range" for item in items_of(tree) for key, _ in pairs_of(item))
