"""What is saved of an index is a cache: used where all of it agrees with the rows, and rebuilt otherwise."""

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from store.interface.errors import VectorRefused
from store.vectors.index import VectorIndex
from store.vectors.snapshot import drop, drop_others
from tests.support.vector_rows import OpenIndex, VectorRows

COUNT = 400


@pytest.fixture
def saved(rows: VectorRows, open_index: OpenIndex) -> VectorIndex:
    """Return an index of 400 rows of which 20 were removed, on disk."""
    labels = rows.add(COUNT + 20)
    index = open_index(rows)
    index.remove(rows.remove(labels[::21]))
    index.save()
    return index


def wrong_with(rows: VectorRows, folder: Path) -> str | None:
    """Return why the saved graph cannot be used, or None."""
    return VectorIndex.open(folder, "words@1", 16, rows.live(), rows.of(rows.live()), graph_from=10).reason


def test_is_taken_over(rows: VectorRows, saved: VectorIndex, open_index: OpenIndex, folder: Path) -> None:
    again = open_index(rows, caught_up=False)
    assert (again.reason, again.is_behind, again.is_worth_saving, again.count) == (None, False, False, COUNT)
    assert wrong_with(rows, folder) is None
    rows.assert_exact(again)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert (manifest["sequence"], manifest["count"], manifest["embedder"]) == (COUNT + 20, COUNT, "words@1")


def test_what_changed_since_is_made_up_for(
    rows: VectorRows, saved: VectorIndex, open_index: OpenIndex, folder: Path
) -> None:
    gone = rows.remove(rows.live()[5:10])
    rows.add(30)
    assert wrong_with(rows, folder) is None
    again = open_index(rows, caught_up=False)
    assert (again.reason, again.is_behind, again.is_worth_saving) == (None, True, True)
    rows.assert_exact(again)
    while again.catch_up():
        pass
    again.save()
    assert wrong_with(rows, folder) is None
    third = open_index(rows, caught_up=False)
    assert (third.reason, third.is_behind) == (None, False)
    rows.assert_exact(third)
    with pytest.raises(VectorRefused, match="not reused"):
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
def test_damage_is_noticed_and_repaired(
    rows: VectorRows, saved: VectorIndex, open_index: OpenIndex, folder: Path, kind: str, how: str
) -> None:
    (path,) = folder.glob(f"{kind}*")
    damaged(path, how)
    nothing_there = (kind, how) == ("manifest", "missing")
    assert (wrong_with(rows, folder) is None) is nothing_there
    again = open_index(rows, caught_up=False)
    assert (again.reason is None) is nothing_there
    assert again.is_behind
    rows.assert_exact(again)
    while again.catch_up():
        pass
    again.save()
    assert open_index(rows, caught_up=False).reason is None
    assert wrong_with(rows, folder) is None
    assert len(list(folder.iterdir())) == 3


def test_of_another_embedder_or_dimension_is_not_taken_over(
    rows: VectorRows, saved: VectorIndex, open_index: OpenIndex
) -> None:
    assert "words@1" in str(open_index(rows, embedder="words@2").reason)
    other = type(rows)(dimension=12)
    other.add(COUNT)
    index = open_index(other)
    assert "16 dimensions" in str(index.reason)
    other.assert_exact(index)


@pytest.mark.parametrize(("key", "value"), [("version", 2), ("parameters", {"library": "hnswlib 0.7", "links": 8})])
def test_made_otherwise_is_not_taken_over(
    rows: VectorRows, saved: VectorIndex, open_index: OpenIndex, folder: Path, key: str, value: object
) -> None:
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {key: value}))
    assert "another version" in str(open_index(rows).reason)


def test_of_a_newer_record_than_this_backup_is_not_taken_over(
    rows: VectorRows, saved: VectorIndex, open_index: OpenIndex, folder: Path
) -> None:
    """The database was restored from a backup; later rows came again, with the same numbers."""
    before = dict(rows.vectors)
    rows.vectors[1] = rows.random(1)[0]
    assert "removed" in str(open_index(rows).reason)
    rows.vectors = before | {5: rows.random(1)[0]}
    index = open_index(rows)
    assert "differ from those of the database" in str(index.reason)
    rows.assert_exact(index)


def test_files_of_another_generation_are_not_taken_for_its_own(
    rows: VectorRows, saved: VectorIndex, open_index: OpenIndex, folder: Path
) -> None:
    before = shutil.copytree(folder, folder.with_name("before"))
    labels = rows.add(5)
    saved.add(labels, rows.of(labels))
    saved.catch_up()
    saved.save()
    shutil.copy(before / "manifest.json", folder)
    index = open_index(rows)
    assert "cannot be read" in str(index.reason)
    rows.assert_exact(index)


def test_few_are_not_saved(rows: VectorRows, open_index: OpenIndex, folder: Path) -> None:
    labels = rows.add(COUNT)
    index = open_index(rows)
    index.save()
    assert folder.exists()
    index.remove(rows.remove(labels[20:]))
    while index.catch_up():
        pass
    index.save()
    assert not folder.exists()
    rows.assert_exact(open_index(rows))


def test_removed_vectors_are_in_no_file_after_the_next_save(
    rows: VectorRows, saved: VectorIndex, open_index: OpenIndex, folder: Path
) -> None:
    def is_on_disk(vector: Any) -> bool:
        return any(vector.tobytes() in path.read_bytes() for path in folder.iterdir())

    label = rows.live()[:1]
    vector = rows.vectors[int(label[0])]
    assert is_on_disk(vector)
    saved.remove(rows.remove(label))
    while saved.catch_up():
        pass
    saved.save()
    assert not is_on_disk(vector)
    rows.assert_exact(open_index(rows))
    drop(folder)
    assert list(folder.parent.iterdir()) == []
    drop(folder)
    assert wrong_with(rows, folder) is None


def test_an_index_that_is_closed_brings_nothing_back(rows: VectorRows, saved: VectorIndex, folder: Path) -> None:
    labels = rows.add(5)
    saved.add(labels, rows.of(labels))
    saved.close()
    drop(folder)
    saved.save()
    assert not saved.catch_up()
    assert not folder.exists()
    rows.assert_exact(saved)


def test_a_folder_is_removed_for_good_while_it_is_saved_to(rows: VectorRows, saved: VectorIndex, folder: Path) -> None:
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


def test_rows_that_cannot_be_compared_are_reported(rows: VectorRows, saved: VectorIndex, folder: Path) -> None:
    rows.vectors[5] = np.zeros(16, np.float32)
    with pytest.raises(VectorRefused, match="not of length 1"):
        wrong_with(rows, folder)


def test_indexes_of_nobody_are_removed(saved: VectorIndex, folder: Path) -> None:
    root = folder.parent
    for name in ("half", "of ana"):
        shutil.copytree(folder, root / name)
    (root / "half" / "manifest.json").unlink()
    assert drop_others(root, {folder.name}) == 2
    assert [each.name for each in root.iterdir()] == [folder.name]
    assert drop_others(root / "nowhere", set()) == 0


def test_what_killed_processes_left_goes_with_the_next_save(
    rows: VectorRows, saved: VectorIndex, open_index: OpenIndex, folder: Path
) -> None:
    (folder / "graph.77").write_bytes(b"half a graph")
    (folder / "manifest.json.new").write_bytes(b"{")
    assert open_index(rows).reason is None
    saved.save()
    assert sorted(path.name for path in folder.iterdir()) == ["graph.78", "manifest.json", "roster.78"]
