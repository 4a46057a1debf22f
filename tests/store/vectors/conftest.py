"""Rows of vectors as the database has them, and an index over them whose graph begins with few."""

from pathlib import Path

import pytest

from store.vectors.index import VectorIndex
from tests.support.vector_rows import OpenIndex, VectorRows

EMBEDDER = "words@1"
GRAPH_FROM = 100


@pytest.fixture
def rows() -> VectorRows:
    return VectorRows()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "vectors" / "3f2a"


@pytest.fixture
def open_index(folder: Path) -> OpenIndex:
    """Open the index of rows from disk; its graph is complete unless `caught_up` is false."""

    def open_graph(rows: VectorRows, *, caught_up: bool = True, embedder: str = EMBEDDER) -> VectorIndex:
        index = VectorIndex.open(
            folder, embedder, rows.dimension, rows.live(), rows.of(rows.live()), graph_from=GRAPH_FROM
        )
        while caught_up and index.catch_up():
            pass
        return index

    return open_graph
