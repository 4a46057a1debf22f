"""The scripts a server knows: kept by digest, found by id, prepared for running once."""

import asyncio
from collections import OrderedDict
from pathlib import Path
from uuid import UUID, uuid5

from msgspec import Struct

from api.errors import ApiError
from api.problems import problem_views
from api.schemas.scripts import NewScript
from runtime.ports import Clock
from runtime.program import Program
from scripts.builtin import read_builtin
from scripts.diagnostics import Problem
from scripts.folder import read_folder
from scripts.model import Locale, Script
from scripts.parse import Mode, Reading, Source, read_script
from scripts.strings import table_for
from store.record import Record
from store.rows import ScriptRow, ScriptTextRow, is_uuid

PROGRAMS_MAX = 500
NAMESPACE = UUID("6f1c2a52-6c55-4b7e-9d6e-0c1f7f3f7a11")
PARSE_CODES = frozenset(
    {"SYNTAX_ERROR", "DOCUMENT_TOO_LARGE", "DOCUMENT_TOO_DEEP", "ALIAS_LIMIT", "DUPLICATE_KEY", "UNRECOGNISED_SCRIPT"}
)


class Saved(Struct, frozen=True):
    """A script that was kept, and whether this very text was there before."""

    row: ScriptRow
    reading: Reading
    new: bool


class Catalogue:
    """Scripts of all tenants, over the record."""

    def __init__(self, record: Record, clock: Clock) -> None:
        self._record = record
        self._clock = clock
        self._programs: OrderedDict[tuple[str, str, str], Program] = OrderedDict()  # tenant, digest, string table
        self._saving = asyncio.Lock()  # two imports of one script must not both become version n

    async def save(self, tenant: str, new: NewScript, mode: Mode) -> Saved:
        """Keeps and publishes a script. Raises ApiError where it cannot be run."""
        source = Source(new.yaml_content, file="", side_files=new.files)
        reading = await asyncio.to_thread(read_script, source, mode)
        if reading.script is None:
            raise unusable(reading.errors)
        return await self._keep(tenant, reading, reading.script, new)

    async def load_folder(self, tenant: str, folder: Path) -> list[Saved | Reading]:
        """Keeps every script of a folder; one that cannot be run comes back as its reading."""
        outcomes: list[Saved | Reading] = []
        files: dict[str, str] = {}
        for reading in await asyncio.to_thread(lambda: list(read_folder(folder))):
            script = reading.script
            if script is None:
                outcomes.append(reading)
            elif script.id in files:
                outcomes.append(second(reading, script.id, files[script.id]))
            else:
                files[script.id] = reading.source.file
                outcomes.append(await self.publish(tenant, reading, script))
        return outcomes

    async def publish(self, tenant: str, reading: Reading, script: Script) -> Saved:
        """Keeps and publishes a script that was read from a file."""
        return await self._keep(tenant, reading, script, NewScript(yaml_content=reading.source.text))

    async def _keep(self, tenant: str, reading: Reading, script: Script, new: NewScript) -> Saved:
        async with self._saving:
            latest = await self._record.latest_published(tenant, script.id)
            digest = reading.source.digest
            if latest is not None and latest.digest == digest:
                return Saved(latest, reading, new=False)
            now = self._clock()
            row = ScriptRow(
                tenant=tenant,
                script_uuid=latest.script_uuid if latest else str(uuid5(NAMESPACE, f"{tenant}\0{script.id}")),
                script_id=script.id,
                name=new.script_name or (latest.name if latest else script.title) or script.id,
                version=latest.version + 1 if latest else 1,
                version_label=script.version,
                digest=digest,
                status="published",
                created_at=now,
                updated_at=now,
                tags=new.tags or list(script.tags) or (latest.tags if latest else []),
                author=new.author or script.author or (latest.author if latest else None),
                description=new.description or script.description or (latest.description if latest else None),
            )
            text = ScriptTextRow(tenant, digest, reading.source.text, dict(reading.source.side_files), script.form)
            await self._record.save_script(row, text)
            return Saved(row, reading, new=True)

    async def find(self, tenant: str, script_id: str) -> ScriptRow:
        """A script by its uuid or by the id its author gave it. Raises ApiError SCRIPT_NOT_FOUND."""
        row = await self._record.script(tenant, script_id) if is_uuid(script_id) else None
        row = row or await self._record.latest_published(tenant, script_id) or await self._builtin(tenant, script_id)
        if row is None:
            raise ApiError("SCRIPT_NOT_FOUND", "Script not found", context={"scriptId": script_id})
        return row

    async def _builtin(self, tenant: str, script_id: str) -> ScriptRow | None:
        """A script that every tenant has unless it has one of its own with that id."""
        reading = await asyncio.to_thread(read_builtin, script_id)
        if reading is None or reading.script is None:
            return None
        return (await self.publish(tenant, reading, reading.script)).row

    async def version(self, tenant: str, script_id: str, version: int | None) -> ScriptRow:
        """A version of a script, by number; else the latest that is published. Raises ApiError SCRIPT_NOT_FOUND."""
        script = await self.find(tenant, script_id)
        versions = await self._record.script_versions(tenant, script.script_uuid)
        for each in versions:
            if each.version == version or (version is None and each.status == "published"):
                return each
        known = ", ".join(str(each.version) for each in reversed(versions))
        message = f"the script {script.script_id} has no version {version}; there are {known}"
        raise ApiError("SCRIPT_NOT_FOUND", message, context={"scriptId": script_id})

    async def reading(self, row: ScriptRow) -> Reading:
        """The text of a script, read again."""
        return await self._reading(row.tenant, row.digest)

    async def program(self, tenant: str, digest: str) -> Program:
        """The script of a digest, ready to run. Raises ApiError SCRIPT_NOT_FOUND."""
        program = self._programs.get((tenant, digest, ""))
        if program is None:
            reading = await self._reading(tenant, digest)
            if reading.script is None:  # kept by a version of Cuebook that could run it
                raise unusable(reading.errors)
            program = Program(reading.script)
        return self._remember((tenant, digest, ""), program)

    async def program_in(self, locale: Locale, tenant: str, digest: str) -> Program:
        """The script of a digest with the texts of a language. Raises ApiError SCRIPT_NOT_FOUND."""
        program = await self.program(tenant, digest)
        table = table_for(program.script, locale)  # many languages have the same one, or none
        if table is None:
            return program
        key = (tenant, digest, table.locale.casefold())
        return self._remember(key, self._programs.get(key) or program.in_locale(locale))

    def _remember(self, key: tuple[str, str, str], program: Program) -> Program:
        self._programs[key] = program
        self._programs.move_to_end(key)
        if len(self._programs) > PROGRAMS_MAX:
            self._programs.popitem(last=False)
        return program

    async def _reading(self, tenant: str, digest: str) -> Reading:
        text = await self._record.script_text(tenant, digest)
        if text is None:
            raise ApiError("SCRIPT_NOT_FOUND", "the script's text is not in the record")
        return await asyncio.to_thread(read_script, Source(text.text, "", text.files), "compat")


def second(reading: Reading, script_id: str, first: str) -> Reading:
    """A script whose id another file has: were both published, each would replace the other at every start."""
    message = f"the script {script_id} is in {first} already"
    problem = Problem("DUPLICATE_ID", message, "error", 1, 1, reading.source.file, fix="Give one of them another id.")
    return Reading(reading.source, None, (problem,))


def unusable(problems: tuple[Problem, ...]) -> ApiError:
    """The error that says why a script cannot be run."""
    first = problems[0]
    code = "SCRIPT_PARSE_ERROR" if first.code in PARSE_CODES else "SCRIPT_VALIDATION_ERROR"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    message = f"line {first.line}, column {first.column}: {first.message}{more}"
    return ApiError(code, message, details=list(problem_views(problems)))
