"""What a script in the session form may say that the model does not keep, and the reader passes over in silence."""

from collections.abc import Iterator

from scripts.source import Mapping, Scalar, Sequence, Tree

_TEXT_KEYS = ("content", "question_template", "prompt_template", "content_template")
_METADATA = {"name": "session_name", "version": "", "description": "", "author": ""}
_NAMES = {"action_name", "description"}
_PURPOSES = {"say_goal", "think_goal", "input_variables"}
_OF_TARGET = {"extraction_prompt", "required"}


def unkept(tree: Tree | None) -> Iterator[Scalar]:
    """The keys of a session-form file that lead to nothing."""
    if not isinstance(tree, Mapping):
        return
    session = tree.get("session")
    yield from _metadata(tree.get("metadata"), session)
    for phase in _mappings(session, "phases"):
        for topic in _mappings(phase, "topics"):
            for action in _mappings(topic, "actions"):
                yield from _action(action)


def _metadata(metadata: Tree | None, session: Tree | None) -> Iterator[Scalar]:
    if not isinstance(metadata, Mapping) or not isinstance(session, Mapping):
        return
    for key, value in metadata.pairs:
        given = session.get(_METADATA.get(key.text, "")) if isinstance(value, Scalar) else None
        is_kept = key.text in _METADATA and isinstance(value, Scalar)
        if not is_kept or (_is_text(given) and _text(given) != _text(value)):
            yield key


def _action(action: Mapping) -> Iterator[Scalar]:
    config = action.get("config")
    inner = config.pairs if isinstance(config, Mapping) else ()
    keys = {key.text for key, value in (*action.pairs, *inner) if _is_text(value)}
    spoken = bool(keys & set(_TEXT_KEYS))
    yield from (key for key, _ in action.pairs if key.text in _NAMES)
    outputs = next((value for key, value in (*inner, *action.pairs) if key.text == "output"), None)
    given = {_text(each.get("get")) if isinstance(each, Mapping) else _text(each) for each in _items(outputs)}
    target = next((value for key, value in (*inner, *action.pairs) if key.text == "target_variable"), None)
    has_target = _is_text(target) and _text(target) not in given
    named = next((value for key, value in (*inner, *action.pairs) if key.text == "output_variables"), None)
    given |= {_text(each) for each in _items(named)}
    for key, _ in (*inner, *action.pairs):
        is_purpose = key.text in _PURPOSES and (key.text != "think_goal" or spoken)
        is_written = has_target or (
            bool(given) if key.text == "required" else len(given) == 1 and not _is_defined(outputs)
        )
        if is_purpose or (key.text in _OF_TARGET and not is_written):
            yield key


def _is_defined(outputs: Tree | None) -> bool:
    """Whether the first of the outputs says itself what it means."""
    first = next(iter(_items(outputs)), None)
    return isinstance(first, Mapping) and bool(_text(first.get("define")))


def _items(tree: Tree | None) -> tuple[Tree, ...]:
    return tree.items if isinstance(tree, Sequence) else (tree,) if isinstance(tree, Scalar) else ()


def _mappings(tree: Tree | None, key: str) -> Iterator[Mapping]:
    if isinstance(tree, Mapping):
        yield from (each for each in _items(tree.get(key)) if isinstance(each, Mapping))


def _is_text(tree: Tree | None) -> bool:
    return isinstance(tree, Scalar) and tree.value is not None


def _text(tree: Tree | None) -> str:
    return tree.text if isinstance(tree, Scalar) else ""
