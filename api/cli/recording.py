"""``cuebook test --record``: plays cases with a real model and keeps what it says in the files they name."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from rich.markup import escape

from api.cases.model import FoundCase
from api.cases.run import Result, run_case
from api.cassettes import check_place, write_cassette
from api.cli.output import errors, fail
from runtime.models.cassette import CassetteUnwritable
from runtime.models.recording import RecordingModel
from runtime.ports import Model


class Recorder(Struct, frozen=True):
    """Plays cases: those that name a file of replies with the model, all others as always."""

    model: Model

    async def run(self, found: FoundCase) -> Result:
        """Plays a case; its file is written once all of its turns were taken, else it stays as it is."""
        if found.cassette is None:
            return await run_case(found)
        recording = RecordingModel(self.model)
        result = await run_case(found, model=recording, to_the_end=True)
        if not result.whole:
            message = f"{found.cassette}: the conversation did not get to its end ({found})"
            errors.print(f"[yellow]not written[/] {escape(message)}")
            return result
        try:
            errors.print(escape(write_cassette(found.cassette, recording)))
        except CassetteUnwritable as error:
            fail(str(error))
        return result


def check_recordable(cases: Sequence[FoundCase]) -> None:
    """Ends the command, before any model is asked, where nothing can be recorded or two cases would share a file."""
    for found in cases:
        if found.case.replies:
            message = f"{found.file}:{found.line('replies')} {found}: its replies are written in the case itself."
            errors.print(f"[yellow]not recorded[/] {escape(message)} To record them, write `model: FILE` instead.")
    by_file: dict[Path, list[FoundCase]] = defaultdict(list)
    for found in cases:
        if found.cassette is not None:
            by_file[found.cassette.resolve()].append(found)
    if not by_file:
        fail("no case names a file to record into; add e.g. `model: replies.yaml` to a case, the path from there")
    for same in by_file.values():
        if len(same) > 1:
            places = " and ".join(f"{each.file}:{each.line('model')}" for each in same)
            fail(f"{places} name one file, {same[0].cassette}; to be recorded each needs a file of its own")
        if same[0].cassette is not None:
            try:
                check_place(same[0].cassette)
            except CassetteUnwritable as error:
                fail(str(error))
