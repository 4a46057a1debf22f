"""Cassettes on disk: written whole or not at all, and never over a file that holds something else."""

from pathlib import Path

from api.files import write_whole
from runtime.models.cassette import CassetteUnwritable, Replies, cassette_text, holds_replies
from runtime.models.recording import RecordingModel


def check_place(path: Path) -> None:
    """Looks whether a cassette may be written here, before any model is asked. Raises CassetteUnwritable."""
    if not path.parent.is_dir():
        raise CassetteUnwritable(f"{path}: there is no folder {path.parent}")
    try:
        sound = not path.exists() or holds_replies(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        sound = False
    if not sound:
        raise CassetteUnwritable(f"{path} holds something else than replies; name another file, or remove it first")


def write_cassette(path: Path, model: RecordingModel) -> str:
    """Writes what was recorded; says what that is. Raises CassetteUnwritable."""
    check_place(path)
    replies = model.replies
    try:
        write_whole(cassette_text(replies), path)
    except OSError as error:
        raise CassetteUnwritable(f"{path}: {error.strerror or 'cannot be written'}") from error
    except CassetteUnwritable as error:
        raise CassetteUnwritable(f"{path} is not written: {error}") from error
    return f"wrote {path}: {_counted(_count(replies), 'reply', 'replies')} to {_counted(len(replies), 'action')}"


def _count(replies: Replies) -> int:
    return sum(1 if not isinstance(each, list) else len(each) for rounds in replies.values() for each in rounds)


def _counted(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"
