"""The language model that a command calls, and files of its replies (cassettes)."""

from pathlib import Path

from rich.markup import escape

from api.cli.output import errors, fail, failing, file_errors
from api.local_files.atomic_files import write_whole
from api.models.server_model import ModelUnknown, make_model
from api.settings import Settings
from runtime.models.cassette_file import CassetteUnwritable, ScriptedFileInvalid, cassette_text, holds_replies
from runtime.models.recorded_models import RecordingModel
from runtime.prompts.templates import TemplateSource
from runtime.state.ports import Model
from runtime.tools.examples import ToolReplies
from runtime.tools.replies_file import tools_as_written
from scripts.expressions.values import count_text


def model_of(settings: Settings, edited: TemplateSource | None = None) -> Model:
    """Create the model of the settings, perhaps with an edited prompt template; end the command if there is none."""
    with failing(ModelUnknown, ScriptedFileInvalid):
        return make_model(settings, edited)


def check_recording(file: Path | None) -> None:
    """End the command, before any model call, if this file for a recording cannot be written."""
    if file is None:
        return
    if not file.parent.is_dir():
        fail(f"{file}: there is no folder {file.parent}")
    try:
        is_cassette = not file.exists() or holds_replies(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        is_cassette = False
    if not is_cassette:
        fail(f"{file} holds something else than replies; name another file, or remove it first")


def write_recording(file: Path, recording: RecordingModel, style: str = "", tools: ToolReplies | None = None) -> None:
    """Write the replies of a model, and of tools, to a file and print how many; end the command if the file cannot be
    written.
    """
    check_recording(file)
    replies = recording.replies
    try:
        text = cassette_text(replies, tools_as_written(tools or {}))
    except CassetteUnwritable as error:
        fail(f"{file} is not written: {error}")
    with file_errors(file):
        write_whole(text, file)
    written = [each for rounds in replies.values() for each in rounds]
    count, actions = sum(len(each) if isinstance(each, list) else 1 for each in written), len(replies)
    counts = f"{count} {'reply' if count == 1 else 'replies'} to {count_text(actions, 'action')}"
    errors.print(escape(f"wrote {file}: {counts}"), style=style)
