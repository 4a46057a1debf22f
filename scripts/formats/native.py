"""The native format: the types of the model are its grammar."""

from scripts.expressions.suggestions import SURE, likeness
from scripts.formats.session.spellings import has_phase_ids
from scripts.model.action_ids import with_variable_ids
from scripts.model.diagnostics import Problems
from scripts.model.languages import LANGUAGE_KEY, MAIN
from scripts.model.script import Script
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, plain_value, word

_NOT_WRITTEN = {
    "globals": "Write global variables to a separate file and list it in `use`.",
    "strings": "Write a string table to a separate file and list it in `use`.",
    "phrases": "Write translations of the runtime's texts to a string table, a separate file.",
    "form": "Remove it; the format is detected from the keys.",
}


def recognises(tree: Mapping) -> bool:
    """Return whether a file has this format."""
    is_other = any(tree.get(key) is not None for key in ("session", "session_id")) or has_phase_ids(tree)
    return tree.get("script") is not None or (tree.get("phases") is not None and not is_other)


def reader_of(tree: Mapping, problems: Problems) -> tuple[Mapping, Reader]:
    """Return a file without `cuebook`, and a reader of the language that this key names."""
    tree = _correct_key(tree, (LANGUAGE_KEY,), problems)
    written = tree.get(LANGUAGE_KEY)
    if written is None:
        return tree, Reader(problems, lenient=False)
    version = plain_value(written)
    if version != 1 or version is True:  # which is equal to 1
        message = "this version of Cuebook reads `cuebook: 1`"
        problems.add("ENUM_VALUE_INVALID", message, written.at, fix="Write `cuebook: 1`, without quotes.")
    pairs = tuple((key, value) for key, value in tree.pairs if key.text != LANGUAGE_KEY)
    return Mapping(pairs, tree.at), Reader(problems, lenient=False, language="1")


def _correct_key(tree: Mapping, alternatives: tuple[str, ...], problems: Problems) -> Mapping:
    """Return the tree with one of these keys, if it has none of them and a similar one, which is reported."""
    if any(tree.get(key) is not None for key in alternatives):
        return tree
    for number, (key, value) in enumerate(tree.pairs):
        meant = max(alternatives, key=lambda each: likeness(key.text.casefold(), each))
        if likeness(key.text.casefold(), meant) >= SURE:
            problems.add("UNKNOWN_KEY", f"unknown key `{key.text}`", key.at, fix=f"Did you mean `{meant}`?")
            return Mapping((*tree.pairs[:number], (word(meant, key), value), *tree.pairs[number + 1 :]), tree.at)
    return tree


def script_key_fix(tree: Mapping) -> str:
    """Return the fix for a misspelt `script:` or `session:` at the top of a file, or an empty text."""
    pairs = ((key.text, name) for key, _ in tree.pairs for name in ("script", "session"))
    near = (f"Write `{name}` instead of `{key}`." for key, name in pairs if likeness(key.casefold(), name) >= SURE)
    return next(near, "")


def _with_phases(tree: Mapping) -> Mapping:
    """Return the tree with the `actions` of a script without `phases` in the topic `main` of the phase `main`."""
    if tree.get("phases") is not None:
        return tree
    pairs = (_phase_of(key, value) if key.text == "actions" else (key, value) for key, value in tree.pairs)
    return Mapping(tuple(pairs), tree.at)


def _phase_of(key: Scalar, actions: Tree) -> tuple[Scalar, Tree]:
    topic = Mapping(((word("topic", key), word(MAIN, key)), (key, actions)), key.at)
    phase = Mapping(((word("phase", key), word(MAIN, key)), (word("topics", key), Sequence((topic,), key.at))), key.at)
    return word("phases", key), Sequence((phase,), key.at)


def read(whole: Mapping, problems: Problems) -> Script | None:
    """Read the script, or None; `problems` collects what is wrong."""
    found = Problems(problems.file)
    script = _read(whole, found)
    if found.fatal and whole.get(LANGUAGE_KEY) is None:
        script, found = _in_first_release(whole, found) or (script, found)
    problems.extend(found)
    return script


def _in_first_release(whole: Mapping, older: Problems) -> tuple[Script | None, Problems] | None:
    """Read a file without `cuebook` as if it had it; None if it then has no fewer errors than the `older` ones."""
    found = Problems(older.file)
    fix = "Write `cuebook: 1` as the first line: this file has keys of that language."
    found.add("REQUIRED_FIELD_MISSING", f"`{LANGUAGE_KEY}` is missing", whole.at, fix=fix)
    language = (word(LANGUAGE_KEY, whole), word("1", whole))
    script = _read(Mapping((language, *whole.pairs), whole.at), found)
    return (script, found) if len(found.errors) < len(older.errors) else None


def _read(whole: Mapping, problems: Problems) -> Script | None:
    tree, reader = reader_of(whole, problems)
    if tree is not whole:
        tree = _with_phases(_correct_key(tree, ("actions", "phases"), problems))
    written = []
    for key, value in tree.pairs:
        if key.text in _NOT_WRITTEN:
            reader.add("UNKNOWN_KEY", f"`{key.text}` is not allowed in a script", key.at, _NOT_WRITTEN[key.text])
        else:
            written.append((key, value))
    script = reader.read(Mapping(tuple(written), tree.at), Script)
    return with_variable_ids(script) if script is not None and tree is not whole else script
