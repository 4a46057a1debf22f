"""What is saved of an index is a cache: taken over where all of it agrees with the rows, and made anew otherwise."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from store.errors import VectorRefused
from store.vectors.comparing import problems
from store.vectors.index import VectorIndex
from store.vectors.snapshot import drop, drop_others

Opened = Callable[..., VectorIndex]
COUNT = 400


@pytest.fixture
def saved(rows: Any, opened: Opened) -> VectorIndex:
    """An index of 400 rows of which 20 were removed, on disk."""
    labels = rows.add(COUNT + 20)
    index = opened(rows)
    index.remove(rows.remove(labels[::21]))
    index.save()
    return index


def wrong_with(rows: Any, folder: Path) -> list[str]:
    live = rows.live()
    return problems(folder, "words@1", 16, live, rows.of(live))


def test_is_taken_over(rows: Any, saved: VectorIndex, opened: Opened, folder: Path) -> None:
    again = opened(rows, caught_up=False)
    assert (again.reason, again.is_behind, again.unsaved, again.count) == (None, False, 0, COUNT)
    assert wrong_with(rows, folder) == []
    rows.assert_exact(again)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert (manifest["sequence"], manifest["count"], manifest["embedder"]) == (COUNT + 20, COUNT, "words@1")


def test_what_changed_since_is_made_up_for(rows: Any, saved: VectorIndex, opened: Opened, folder: Path) -> None:
    gone = rows.remove(rows.live()[5:10])
    rows.add(30)
    assert wrong_with(rows, folder) == []
    again = opened(rows, caught_up=False)
    assert (again.reason, again.is_behind, again.unsaved, again.is_worth_saving) == (None, True, 5, True)
    rows.assert_exact(again)
    while again.catch_up():
        pass
    again.save()
    assert wrong_with(rows, folder) == []
    third = opened(rows, caught_up=False)
    assert (third.reason, third.is_behind) == (None, False)
    rows.assert_exact(third)
    with pytest.raises(VectorRefused, match="not used again"):
        third.add(gone[:1], rows.random(1))


def damaged(path: Path, how: str) -> None:
    held = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "truncated":
        path.write_bytes(held[: len(held) // 2])
    elif how == "longer":
        path.write_bytes(held + b"\0")
    else:
        middle = len(held) // 2
        path.write_bytes(held[:middle] + bytes([held[middle] ^ 1]) + held[middle + 1 :])


@pytest.mark.parametrize("how", ["missing", "empty", "truncated", "longer", "flipped"])
@pytest.mark.parametrize("kind", ["graph", "roster", "manifest"])
def test_damage_is_noticed_and_mended(
    rows: Any, saved: VectorIndex, opened: Opened, folder: Path, kind: str, how: str
) -> None:
    (path,) = folder.glob(f"{kind}*")
    damaged(path, how)
    nothing_there = (kind, how) == ("manifest", "missing")
    assert bool(wrong_with(rows, folder)) is not nothing_there
    again = opened(rows, caught_up=False)
    assert (again.reason is None) is nothing_there
    assert again.is_behind
    rows.assert_exact(again)
    while again.catch_up():
        pass
    again.save()
    assert opened(rows, caught_up=False).reason is None
    assert wrong_with(rows, folder) == []
    assert len(list(folder.iterdir())) == 3


def test_of_another_embedder_or_dimension_is_not_taken_over(rows: Any, saved: VectorIndex, opened: Opened) -> None:
    assert "words@1" in str(opened(rows, embedder="words@2").reason)
    other = type(rows)(dimension=12)
    other.add(COUNT)
    index = opened(other)
    assert "16 dimensions" in str(index.reason)
    other.assert_exact(index)


@pytest.mark.parametrize(("key", "value"), [("version", 2), ("parameters", {"library": "hnswlib 0.7", "links": 8})])
def test_made_otherwise_is_not_taken_over(
    rows: Any, saved: VectorIndex, opened: Opened, folder: Path, key: str, value: object
) -> None:
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {key: value}))
    assert "another version" in str(opened(rows).reason)


def test_of_a_newer_record_than_this_backup_is_not_taken_over(
    rows: Any, saved: VectorIndex, opened: Opened, folder: Path
) -> None:
    """The record was put back to what it was; what came then came anew, with the same numbers."""
    before = dict(rows.vectors)
    rows.vectors[1] = rows.random(1)[0]
    assert "removed" in str(opened(rows).reason)
    assert "1 vectors are in the record and removed from the saved index, first number 1" in wrong_with(rows, folder)
    rows.vectors = before | {5: rows.random(1)[0]}
    index = opened(rows)
    assert "not those of the record" in str(index.reason)
    assert "1 vectors are other in the saved index than in the record, first number 5" in wrong_with(rows, folder)
    rows.assert_exact(index)


def test_files_of_another_generation_are_not_taken_for_its_own(
    rows: Any, saved: VectorIndex, opened: Opened, folder: Path
) -> None:
    before = shutil.copytree(folder, folder.with_name("before"))
    labels = rows.add(5)
    saved.add(labels, rows.of(labels))
    saved.catch_up()
    saved.save()
    shutil.copy(before / "manifest.json", folder)
    index = opened(rows)
    assert "cannot be read" in str(index.reason)
    rows.assert_exact(index)


def test_few_are_not_saved(rows: Any, opened: Opened, folder: Path) -> None:
    labels = rows.add(COUNT)
    index = opened(rows)
    index.save()
    assert folder.exists()
    index.remove(rows.remove(labels[20:]))
    while index.catch_up():
        pass
    index.save()
    assert not folder.exists()
    rows.assert_exact(opened(rows))


def test_what_is_removed_stays_in_no_file_once_it_is_made_anew(
    rows: Any, saved: VectorIndex, opened: Opened, folder: Path
) -> None:
    def is_on_disk(vector: Any) -> bool:
        return any(vector.tobytes() in path.read_bytes() for path in folder.iterdir())

    label = rows.live()[:1]
    vector = rows.vectors[int(label[0])]
    assert is_on_disk(vector)
    saved.remove(rows.remove(label))
    saved.rebuild()
    saved.save()
    assert not is_on_disk(vector)
    rows.assert_exact(opened(rows))
    drop(folder)
    assert list(folder.parent.iterdir()) == []
    drop(folder)
    assert wrong_with(rows, folder) == []


def test_an_index_that_is_closed_brings_nothing_back(rows: Any, saved: VectorIndex, folder: Path) -> None:
    labels = rows.add(5)
    saved.add(labels, rows.of(labels))
    saved.close()
    drop(folder)
    saved.save()
    assert not saved.catch_up()
    assert not folder.exists()
    rows.assert_exact(saved)


def test_a_folder_is_removed_for_good_while_it_is_saved_to(rows: Any, saved: VectorIndex, folder: Path) -> None:
    is_over = threading.Event()

    def keep_saving() -> None:
        while not is_over.is_set():
            saved.save()

    thread = threading.Thread(target=keep_saving)
    thread.start()
    for _ in range(20):
        drop(folder)
    saved.close()
    drop(folder)
    is_over.set()
    thread.join()
    assert not folder.exists()


def test_rows_that_cannot_be_compared_are_told(rows: Any, saved: VectorIndex, folder: Path) -> None:
    rows.vectors[5] = np.zeros(16, np.float32)
    (problem,) = wrong_with(rows, folder)
    assert "not of length 1" in problem


def test_indexes_of_nobody_are_removed(saved: VectorIndex, folder: Path) -> None:
    root = folder.parent
    for name in ("half", "of ana"):
        shutil.copytree(folder, root / name)
    (root / "half" / "manifest.json").unlink()
    assert drop_others(root, {folder.name}) == 2
    assert [each.name for each in root.iterdir()] == [folder.name]
    assert drop_others(root / "nowhere", set()) == 0


def test_what_killed_processes_left_goes_with_the_next_save(
    rows: Any, saved: VectorIndex, opened: Opened, folder: Path
) -> None:
    (folder / "graph.77").write_bytes(b"half a graph")
    (folder / "manifest.json.new").write_bytes(b"{")
    assert opened(rows).reason is None
    saved.save()
    assert sorted(path.name for path in folder.iterdir()) == ["graph.78", "manifest.json", "roster.78"]
