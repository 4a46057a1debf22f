"""Files that are written completely or not at all."""

import os
from pathlib import Path

import pytest

from api.local_files.atomic_files import write_whole, writing_whole
from tests.support.fixture_types import RunCommand, WriteFile


def test_failure_on_the_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    file.write_text("old")
    with pytest.raises(OSError, match="full"), writing_whole(file) as output:
        output.write(b"new")
        raise OSError("the disk is full")
    assert (file.read_text(), list(tmp_path.iterdir())) == ("old", [file])


def test_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.parent.mkdir()
    target.write_text("old")
    link.symlink_to(target)
    write_whole("new", link)
    assert (link.is_symlink(), target.read_text()) == (True, "new")


def test_pipe_is_written_to(cuebook: RunCommand, write: WriteFile, tmp_path: Path) -> None:
    script = write("hello.yaml", "cuebook: 1\nscript: hello\nactions:\n  - say: Hello.\n")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        result = cuebook("graph", script, "-o", pipe, "--format", "mermaid")
        assert result.exit_code == 0, result.stderr
        assert os.read(reader, 10_000).startswith(b"flowchart")
    finally:
        os.close(reader)
    assert pipe.is_fifo()
