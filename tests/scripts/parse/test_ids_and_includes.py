"""Ids that hold still, the files a script uses, and the digest of all that was written."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.model.actions import walk
from scripts.parse.read_script import Source, read_file, read_script
from scripts.yaml.text_file import FILE_BYTES_MAX, FileUnreadable
from tests.support.script_readers import ReadScript, ReadValid

HEAD = (
    "script: talk\nuse: [shared.yaml]\nphases:\n  - phase: main\n    topics:\n      - topic: first\n        actions:\n"
)
GLOBALS = "globals:\n  - {var: city, value: Paris}\n"

BLOCKS = st.recursive(
    st.tuples(st.sampled_from(["say", "ai_say", "user_say"]), st.sampled_from(["", "say_1", "say_2", "ai_say_1", "x"])),
    lambda inner: st.tuples(st.just("if"), st.just(""), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)


def written(block) -> str:
    kind, name, *inner = block
    given_id = f", id: {name}" if name else ""
    if inner:
        return "{if: true, then: [" + ", ".join(written(each) for each in inner[0]) + f"]{given_id}}}"
    return f"{{{kind}: Hello.{given_id}}}"


def ids(source: str) -> list[str]:
    script = read_script(Source(source)).script
    return [action.id for action in walk(script.phases[0].topics[0].actions)] if script else []


def actions(*lines: str) -> str:
    return HEAD.replace("use: [shared.yaml]\n", "") + "".join(f"          - {line}\n" for line in lines)


def test_an_action_without_id_is_called_by_its_type_and_number() -> None:
    assert ids(actions("say: a", "ask: b", "say: c", "{if: true, then: [say: d]}", "say: e")) == [
        "say_1",
        "ask_1",
        "say_2",
        "if_1",
        "say_3",
        "say_4",
    ]


def test_a_derived_id_leaves_out_what_is_taken_even_further_down() -> None:
    assert ids(actions("say: a", "{say: b, id: say_1}", "say: c", "{say: d, id: say_3}")) == [
        "say_2",
        "say_1",
        "say_4",
        "say_3",
    ]


@settings(deadline=None)
@given(st.lists(BLOCKS, min_size=1, max_size=6))
def test_derived_ids_never_collide(blocks) -> None:
    given_names = [name for name in _names(blocks) if name]
    found = ids(actions(*(written(block) for block in blocks)))
    if len(set(given_names)) == len(given_names):
        assert len(set(found)) == len(found) == len(_names(blocks))
    else:
        assert found == []  # a name given twice is an error of the author's


def _names(blocks) -> list[str]:
    return [name for _, own, *inner in blocks for name in (own, *_names(inner[0] if inner else ()))]


def test_the_globals_of_side_files_are_the_script_s(script: ReadValid) -> None:
    read = script(HEAD + "          - {say: '{{ city }}', id: a}\n", shared_yaml=GLOBALS)
    assert [(each.var, each.value, each.at.file) for each in read.globals] == [("city", "Paris", "shared.yaml")]


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        ("globals: [{var: 1st}]", "VARIABLE_NAME_INVALID", 1),
        ("globals:\n  - {vra: city}", "UNKNOWN_KEY", 2),
        ("globals: 5", "TYPE_MISMATCH", 1),
        ("globals: 'open", "SYNTAX_ERROR", 1),
        ("rooms: []", "UNRECOGNISED_SCRIPT", 1),
        ("- city", "UNRECOGNISED_SCRIPT", 1),
        ("globals: [{var: age, type: number, value: many}]", "DEFAULT_MISMATCH", 1),
    ],
)
def test_a_problem_in_a_side_file_stands_in_that_file(read: ReadScript, content, code, line) -> None:
    problems = read(HEAD + "          - {say: Hello., id: a}\n", shared_yaml=content).errors
    assert ("shared.yaml", code, line) in {(problem.file, problem.code, problem.line) for problem in problems}


def test_more_side_files_than_a_script_may_have_are_refused(read: ReadScript) -> None:
    text = HEAD.replace("shared.yaml", ", ".join(f"f{n}.yaml" for n in range(21)))
    assert "CONSTRAINT_VIOLATION" in [problem.code for problem in read(text).errors]


def test_digest_depends_on_every_file_but_not_on_their_folders() -> None:
    source = Source("script: a", "here.yaml", {"b.yaml": "1", "a.yaml": "2"})
    same = Source("script: a", "there.yaml", {"a.yaml": "2", "b.yaml": "1"})
    others = [
        Source("script: b", "here.yaml", source.side_files),
        Source("script: a", "here.yaml", {"b.yaml": "1", "a.yaml": "3"}),
        Source("script: a", "here.yaml", {"b.yaml": "1", "c.yaml": "2"}),
        Source("script: a", "here.yaml", {"b.yaml": "1"}),
        Source("script: a", "here.yaml"),
    ]
    assert source.digest == same.digest
    assert len({source.digest, *(other.digest for other in others)}) == 6


def write(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(content, "utf-8")
    return folder / "talk.yaml"


def test_a_file_brings_the_side_files_it_names(tmp_path: Path) -> None:
    source = read_file(write(tmp_path, talk=HEAD, shared=GLOBALS, other="never read"))
    assert dict(source.side_files) == {"shared.yaml": GLOBALS}


@pytest.mark.parametrize("name", ["../secret.yaml", "/etc/hostname", "a/../../secret.yaml"])
def test_a_side_file_outside_the_folder_is_never_opened(tmp_path: Path, name) -> None:
    (tmp_path / "inner").mkdir()
    write(tmp_path, secret=GLOBALS)
    source = read_file(write(tmp_path / "inner", talk=HEAD.replace("shared.yaml", name)))
    assert dict(source.side_files) == {}
    assert "USE_NOT_FOUND" in [problem.code for problem in read_script(source).errors]


def test_a_link_that_leads_outside_the_folder_is_never_followed(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    write(tmp_path, secret=GLOBALS)
    (tmp_path / "inner" / "shared.yaml").symlink_to(tmp_path / "secret.yaml")
    assert dict(read_file(write(tmp_path / "inner", talk=HEAD)).side_files) == {}


def test_a_side_file_s_name_that_no_file_can_have_is_not_found(tmp_path: Path) -> None:
    source = read_file(write(tmp_path, talk=HEAD.replace("shared.yaml", '"a\\0b", ' + "x" * 5_000)))
    assert dict(source.side_files) == {}


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "talk.yaml"
    path.write_bytes(b"\xef\xbb\xbfscript: talk\nphases: []\n")
    assert read_script(read_file(path)).errors == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe", "not UTF-8"), (b" " * (FILE_BYTES_MAX + 1), "larger than"), (None, "No such")],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, content, message) -> None:
    path = tmp_path / "talk.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileUnreadable, match=message):
        read_file(path)


@pytest.mark.parametrize("key", ["use", "include", "import"])
@pytest.mark.parametrize(
    "text", ["sessions: [{{session: s, {}, stages: []}}]", "session: {{session_id: s, {}, phases: []}}"]
)
def test_a_session_may_name_the_files_that_it_uses(tmp_path, key, text) -> None:
    source = read_file(write(tmp_path, talk=text.format(f"{key}: [shared.yaml]"), shared=GLOBALS))
    assert dict(source.side_files) == {"shared.yaml": GLOBALS}
