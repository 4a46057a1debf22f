"""The scripts a server knows: kept by digest, found by id, prepared for running once."""

import asyncio
from collections import OrderedDict
from pathlib import Path
from uuid import UUID, uuid5

import structlog
from msgspec import Struct

from api.errors import ApiError
from api.problems import problem_views
from api.schemas.scripts import NewScript
from runtime.ports import Clock
from runtime.program import Program
from scripts.builtin import read_builtin
from scripts.diagnostics import Problem
from scripts.folder import read_folder
from scripts.memories import MemoryPlan
from scripts.model import Locale, Script
from scripts.parse import Mode, Reading, Source, read_script
from scripts.strings import table_for
from store.record import Record
from store.rows import ScriptRow, ScriptStatus, ScriptTextRow
from store.script_texts import ScriptChanges

log = structlog.get_logger()

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


class _Prepared(Struct, frozen=True):
    """A script ready to run, and what is wrong with it by now."""

    program: Program
    errors: tuple[Problem, ...] = ()


class Catalogue:
    """Scripts of all tenants, over the record."""

    def __init__(self, record: Record, clock: Clock) -> None:
        self._record = record
        self._clock = clock
        self._programs: OrderedDict[tuple[str, str, str], _Prepared] = OrderedDict()  # tenant, digest, string table
        self._saving = asyncio.Lock()  # two imports of one script must not both become version n

    async def save(self, tenant: str, new: NewScript, mode: Mode) -> Saved:
        """Keeps a script, and publishes it unless it is a draft. Raises ApiError where it cannot be run."""
        source = Source(new.yaml_content, file="", side_files=new.files)
        reading = await asyncio.to_thread(read_script, source, mode)
        if reading.script is None:
            raise unusable(reading.errors)
        async with self._saving:
            versions = await self._record.script_versions(tenant, reading.script.id)
            offered = _offered(versions)
            if new.publish and offered is not None and offered.digest == reading.source.digest:
                return Saved(offered, reading, new=False)
            if versions and versions[0].digest == reading.source.digest:
                latest = await self._publish(versions, versions[0]) if new.publish else versions[0]
                return Saved(latest, reading, new=False)
            return await self._keep(tenant, reading, reading.script, new, versions)

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
        """Keeps and publishes a script that was read from a file.

        Nothing happens where it is the latest version, whatever became of that, or where this text was archived: a
        file that is merely still there takes nothing back.
        """
        async with self._saving:
            versions = await self._record.script_versions(tenant, script.id)
            same = [row for row in versions if row.digest == reading.source.digest]
            offered = _offered(versions)
            if offered is not None and offered in same:
                return Saved(offered, reading, new=False)
            if same and (same[0] is versions[0] or any(row.status == "archived" for row in same)):
                return Saved(same[0], reading, new=False)
            return await self._keep(tenant, reading, script, NewScript(yaml_content=reading.source.text), versions)

    async def _keep(
        self, tenant: str, reading: Reading, script: Script, new: NewScript, versions: list[ScriptRow]
    ) -> Saved:
        """Adds a version; what is not said of it is as with the latest of the `versions` there are."""
        latest = versions[0] if versions else None
        now, digest = self._clock(), reading.source.digest
        row = ScriptRow(
            tenant=tenant,
            script_uuid=latest.script_uuid if latest else str(uuid5(NAMESPACE, f"{tenant}\0{script.id}")),
            script_id=script.id,
            name=new.script_name or (latest.name if latest else script.title) or script.id,
            version=latest.version + 1 if latest else 1,
            version_label=script.version,
            digest=digest,
            status="published" if new.publish else "draft",
            created_at=now,
            updated_at=now,
            tags=new.tags or list(script.tags) or (latest.tags if latest else []),
            author=new.author or script.author or (latest.author if latest else None),
            description=new.description or script.description or (latest.description if latest else None),
        )
        text = ScriptTextRow(tenant, digest, reading.source.text, dict(reading.source.side_files), script.form)
        await self._record.save_script(row, text)
        return Saved(row, reading, new=True)

    async def memory_plan(self, tenant: str, digest: str) -> MemoryPlan:
        """What the script with a digest says of memory."""
        return (await self.program(tenant, digest)).script.memory

    # -- versions ---------------------------------------------------------------------------------------------------

    async def publish_version(self, tenant: str, script_id: str, version: int | None) -> ScriptRow:
        """Has new sessions begin with a version, the latest unless it is named; later ones are drafts again.

        Raises ApiError SCRIPT_NOT_FOUND.
        """
        async with self._saving:
            versions = await self.versions(tenant, script_id)
            return await self._publish(versions, versions[0] if version is None else _numbered(versions, version))

    async def _publish(self, versions: list[ScriptRow], wanted: ScriptRow) -> ScriptRow:
        later = {row.version for row in versions if row.status == "published" and row.version > wanted.version}
        statuses: dict[int, ScriptStatus] = {**dict.fromkeys(later, "draft"), wanted.version: "published"}
        if later or wanted.status != "published":
            await self._record.set_script_statuses(wanted.tenant, wanted.script_uuid, statuses, self._clock())
        return await self._again(wanted)

    async def archive(self, tenant: str, script_id: str, version: int | None) -> ScriptRow:
        """Takes a version, or the whole script, out of use: no new session begins with it, those that run go on.

        Raises ApiError SCRIPT_NOT_FOUND.
        """
        async with self._saving:
            versions = await self.versions(tenant, script_id)
            wanted = versions if version is None else [_numbered(versions, version)]
            statuses: dict[int, ScriptStatus] = {row.version: "archived" for row in wanted if row.status != "archived"}
            if statuses:
                await self._record.set_script_statuses(tenant, wanted[0].script_uuid, statuses, self._clock())
            return await self._again(wanted[0])

    async def describe(self, tenant: str, script_id: str, changes: ScriptChanges) -> ScriptRow:
        """Says something else of a script, in all its versions; the latest. Raises ApiError SCRIPT_NOT_FOUND."""
        async with self._saving:
            latest = (await self.versions(tenant, script_id))[0]
            await self._record.describe_script(tenant, latest.script_uuid, changes, self._clock())
            return await self._again(latest)

    async def _again(self, row: ScriptRow) -> ScriptRow:
        return await self._record.script(row.tenant, row.script_uuid, row.version) or row

    # -- find -------------------------------------------------------------------------------------------------------

    async def find(self, tenant: str, script_id: str) -> ScriptRow:
        """A script by its uuid or by the id its author gave it: what new sessions begin with, else its latest version.

        Raises ApiError SCRIPT_NOT_FOUND.
        """
        return await self._latest_published(tenant, script_id) or (await self.versions(tenant, script_id))[0]

    async def offered(self, tenant: str, script_id: str) -> ScriptRow:
        """The version that new sessions begin with. Raises ApiError SCRIPT_NOT_FOUND, SCRIPT_NOT_PUBLISHED."""
        row = await self._latest_published(tenant, script_id)
        if row is None:
            raise _not_published((await self.versions(tenant, script_id))[0])
        return row

    async def _latest_published(self, tenant: str, script_id: str) -> ScriptRow | None:
        row = await self._record.latest_published(tenant, script_id)
        if row is None and await self._builtin(tenant, script_id):
            row = await self._record.latest_published(tenant, script_id)
        return row

    async def _builtin(self, tenant: str, script_id: str) -> bool:
        """Keeps a script that every tenant has unless it has one of its own with that id; whether there is one."""
        reading = await asyncio.to_thread(read_builtin, script_id)
        if reading is None or reading.script is None:
            return False
        await self.publish(tenant, reading, reading.script)
        return True

    async def versions(self, tenant: str, script_id: str) -> list[ScriptRow]:
        """The last 1,000 versions of a script, the latest first. Raises ApiError SCRIPT_NOT_FOUND."""
        versions = await self._record.script_versions(tenant, script_id)
        if not versions:
            raise ApiError("SCRIPT_NOT_FOUND", "Script not found", context={"scriptId": script_id})
        return versions

    async def version(self, tenant: str, script_id: str, version: int | None) -> ScriptRow:
        """A version of a script, by number; else the one that new sessions begin with.

        Raises ApiError SCRIPT_NOT_FOUND, SCRIPT_NOT_PUBLISHED.
        """
        if version is None:
            return await self.offered(tenant, script_id)
        return _numbered(await self.versions(tenant, script_id), version)

    async def reading(self, row: ScriptRow) -> Reading:
        """The text of a script, read again."""
        return await self._reading(row.tenant, row.digest)

    async def program(self, tenant: str, digest: str) -> Program:
        """The script of a digest, ready to run. Raises ApiError SCRIPT_NOT_FOUND.

        A text that an earlier version of Cuebook accepted runs as far as it can be read, since sessions run on it.
        """
        return (await self._prepared(tenant, digest)).program

    async def valid_program(self, tenant: str, digest: str) -> Program:
        """The same for a session that begins or moves to it; a script that has errors now is refused with them."""
        prepared = await self._prepared(tenant, digest)
        if prepared.errors:
            raise unusable(prepared.errors)
        return prepared.program

    async def program_in(self, locale: Locale, tenant: str, digest: str) -> Program:
        """The script of a digest with the texts of a language. Raises ApiError SCRIPT_NOT_FOUND."""
        program = await self.program(tenant, digest)
        table = table_for(program.script, locale)  # many languages have the same one, or none
        if table is None:
            return program
        key = (tenant, digest, table.locale.casefold())
        return self._remember(key, self._programs.get(key) or _Prepared(program.in_locale(locale))).program

    async def _prepared(self, tenant: str, digest: str) -> "_Prepared":
        prepared = self._programs.get((tenant, digest, ""))
        if prepared is None:
            reading = await self._reading(tenant, digest)
            if reading.draft is None:
                raise unusable(reading.errors)
            prepared = _Prepared(Program(reading.draft), reading.errors)
            if reading.errors:
                problem = str(reading.errors[0])
                log.warning("sessions run on a script that has errors now", digest=digest, problem=problem)
        return self._remember((tenant, digest, ""), prepared)

    def _remember(self, key: tuple[str, str, str], prepared: "_Prepared") -> "_Prepared":
        self._programs[key] = prepared
        self._programs.move_to_end(key)
        if len(self._programs) > PROGRAMS_MAX:
            self._programs.popitem(last=False)
        return prepared

    async def _reading(self, tenant: str, digest: str) -> Reading:
        text = await self._record.script_text(tenant, digest)
        if text is None:
            raise ApiError("SCRIPT_NOT_FOUND", "the script's text is not in the record")
        return await asyncio.to_thread(read_script, Source(text.text, "", text.files), "compat")


def _offered(versions: list[ScriptRow]) -> ScriptRow | None:
    return next((row for row in versions if row.status == "published"), None)


def _numbered(versions: list[ScriptRow], version: int) -> ScriptRow:
    for each in versions:
        if each.version == version:
            return each
    known = ", ".join(str(each.version) for each in reversed(versions))
    message = f"the script {versions[0].script_id} has no version {version}; there are {known}"
    raise ApiError("SCRIPT_NOT_FOUND", message, context={"scriptId": versions[0].script_id})


def _not_published(latest: ScriptRow) -> ApiError:
    what = "is archived" if latest.status == "archived" else "has no version that is published"
    return ApiError(
        "SCRIPT_NOT_PUBLISHED", f"the script {latest.script_id} {what}", context={"scriptId": latest.script_id}
    )


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
