"""What `cuebook check` makes of a path: scripts, cases, and for a side file the scripts that use it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from scripts.folder import CASE_SUFFIX, read_path, script_files, users_of
from scripts.parse import FileUnreadable, Mode, Reading, Source, is_for_others, is_script, read_file, read_side_file
from scripts.side_files import BRINGS


class Judged(Struct, frozen=True):
    """The scripts and case files that were read, a case file as one without a script, and notes on the others."""

    scripts: tuple[Reading, ...]
    cases: tuple[Reading, ...]
    side_files: tuple[Reading, ...]  # those that no script uses
    notes: tuple[str, ...]

    @property
    def readings(self) -> tuple[Reading, ...]:
        """All that was read."""
        return (*self.scripts, *self.cases, *self.side_files)


def judge(paths: Sequence[Path], mode: Mode) -> Judged:
    """Reads what the paths name, each as what it is."""
    scripts: list[Reading] = []
    cases: list[Reading] = []
    side_files: list[Reading] = []
    notes: list[str] = []
    for path in paths:
        is_case = path.name.endswith(CASE_SUFFIX)
        if path.is_file() and not is_case and _is_side_file(path):
            users = [_as_given(each) for each in users_of(path)]
            scripts += [read_path(each, mode) for each in users]
            side_files += [] if users else [read_side_file(read_file(path), mode)]
            then = f"checking {', '.join(map(str, users))}" if users else _alone(side_files[-1])
            notes.append(f"{path} is a side file; {then}")
            continue
        scripts += [] if path.is_file() and is_case else _scripts(path, mode)
        cases += _cases(path) if is_case or path.is_dir() else []
    each_once = {reading.source.file: reading for reading in scripts}
    return Judged(tuple(each_once.values()), tuple(cases), tuple(side_files), tuple(notes))


def _alone(side_file: Reading) -> str:
    """What there is to say of a side file that no script uses."""
    script = side_file.script
    brought = [(name, len(getattr(script, name))) for name in BRINGS] if script is not None else []
    counts = [f"{count} {name if count != 1 else name.removesuffix('s')}" for name, count in brought if count]
    return f"no script beside it has it in `use`; it brings {', '.join(counts) or 'nothing'}"


def _scripts(path: Path, mode: Mode) -> Iterator[Reading]:
    """The scripts under a path; a file that was named counts as one whatever it holds."""
    for each in script_files(path):
        reading = read_path(each, mode)
        if path.is_file() or not reading.source.text or is_script(reading.source):
            yield reading


def _cases(path: Path) -> list[Reading]:
    """The case files under a path, each as a reading without a script."""
    from api.cases.model import Prepared  # what plays them takes its time to load, and a script needs none of it
    from api.cases.reading import case_files, read_cases

    prepared: dict[Path, Prepared | Reading] = {}
    found = [read_cases(file, prepared) for file in case_files(path)]
    return [Reading(Source(each.text, each.file), None, each.problems) for each in found]


def _is_side_file(path: Path) -> bool:
    try:
        return is_for_others(read_file(path))
    except FileUnreadable:
        return False


def _as_given(path: Path) -> Path:
    """As short as a path can be."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
