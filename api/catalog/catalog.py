"""The script catalog of a server: stored by digest, found by id, prepared for running once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from uuid import UUID, uuid5

import msgspec
import structlog
from cachetools import LRUCache
from msgspec import Struct

from api.errors import ApiError
from api.schemas.errors import ErrorDetail
from api.schemas.scripts import NewScript
from runtime.state.ports import Clock
from runtime.state.program import Program
from scripts.builtin import read_builtin
from scripts.expressions.suggestions import suggest
from scripts.model.diagnostics import Problem, problem_at
from scripts.model.memory_plan import MemoryPlan
from scripts.model.script import Locale, Script
from scripts.parse.folder import read_folder
from scripts.parse.read_script import Mode, Reading, Source, read_script
from scripts.translations.localisation import table_for
from store.interface.errors import IdTaken, StoreBusy
from store.interface.list_rows import ScriptChanges, ScriptFilter
from store.interface.rows import ScriptRow, ScriptStatus, ScriptTextRow
from store.store import Store

log = structlog.get_logger()

PROGRAMS_MAX = 500
ATTEMPTS_MAX = 20  # to add a version; each fails only if another server has added one
NAMES_MAX = 200  # scripts whose ids are compared with one that does not exist
NAMESPACE = UUID("6f1c2a52-6c55-4b7e-9d6e-0c1f7f3f7a11")
PARSE_CODES = frozenset(
    {"SYNTAX_ERROR", "DOCUMENT_TOO_LARGE", "DOCUMENT_TOO_DEEP", "ALIAS_LIMIT", "DUPLICATE_KEY", "UNRECOGNISED_SCRIPT"}
)


class SavedScript(Struct, frozen=True):
    """A stored script; `new` is whether its text was not stored before."""

    row: ScriptRow
    reading: Reading
    new: bool


class _PreparedScript(Struct, frozen=True):
    """A script that is ready to run, and its current problems."""

    program: Program
    errors: tuple[Problem, ...] = ()


class Catalog:
    """Scripts of all tenants, over the database."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        # by tenant, digest and string table
        self._programs: LRUCache[tuple[str, str, str], _PreparedScript] = LRUCache(PROGRAMS_MAX)
        # by tenant and uuid or id; only where no other server can change them
        self._published: LRUCache[tuple[str, str], ScriptRow] = LRUCache(PROGRAMS_MAX)
        self._saving = asyncio.Lock()  # saves several attempts when two requests add a version of one script

    async def save(self, tenant: str, new: NewScript, mode: Mode) -> SavedScript:
        """Store a script, and publish it unless it is a draft. Raises ApiError if it cannot be run."""
        source = Source(new.yaml_content, file="", side_files=new.files or {})
        reading = await self.with_own_id(tenant, await asyncio.to_thread(read_script, source, mode))
        if reading.script is None:
            raise unusable(reading.errors)
        async with self._change():
            return await _until_added(partial(self._save, tenant, reading, reading.script, new))

    async def _save(self, tenant: str, reading: Reading, script: Script, new: NewScript) -> SavedScript:
        versions = await self._store.scripts.versions(tenant, script.id)
        published = _find_published(versions)
        if new.publish and published is not None and published.digest == reading.source.digest:
            return SavedScript(published, reading, new=False)
        if versions and versions[0].digest == reading.source.digest:
            latest = await self._publish(versions, versions[0]) if new.publish else versions[0]
            return SavedScript(latest, reading, new=False)
        return await self._add_version(tenant, reading, script, new, versions)

    async def load_folder(self, tenant: str, folder: Path) -> list[SavedScript | Reading]:
        """Store every script of a folder; return the reading of one that cannot be run."""
        outcomes: list[SavedScript | Reading] = []
        files: dict[str, str] = {}
        for read in await asyncio.to_thread(lambda: list(read_folder(folder))):
            reading = await self.with_own_id(tenant, read)
            script = reading.script
            if script is None:
                outcomes.append(reading)
            elif script.id in files:
                outcomes.append(second(reading, script.id, files[script.id]))
            else:
                files[script.id] = reading.source.file
                outcomes.append(await self.publish(tenant, reading, script))
        return outcomes

    async def with_own_id(self, tenant: str, reading: Reading) -> Reading:
        """Return a reading with an error if the script's id is the uuid of another script, by which that is found."""
        if (script := reading.script) is None:
            return reading
        versions = await self._store.scripts.versions(tenant, script.id)
        other = next((row.script_id for row in versions if row.script_id != script.id), None)
        if other is None:
            return reading
        return refuse(reading, "ID_INVALID", f"the id {script.id} is the uuid of the script {other}")

    async def publish(self, tenant: str, reading: Reading, script: Script) -> SavedScript:
        """Store and publish a script that was read from a file.

        Nothing changes if it is the latest version, in any status, or if this text was archived: an unchanged file does
        not revert a later decision.
        """
        async with self._change():
            return await _until_added(partial(self._publish_file, tenant, reading, script))

    async def _publish_file(self, tenant: str, reading: Reading, script: Script) -> SavedScript:
        versions = await self._store.scripts.versions(tenant, script.id)
        same = [row for row in versions if row.digest == reading.source.digest]
        published = _find_published(versions)
        if published is not None and published in same:
            return SavedScript(published, reading, new=False)
        if same and (same[0] is versions[0] or any(row.status == "archived" for row in same)):
            return SavedScript(same[0], reading, new=False)
        return await self._add_version(tenant, reading, script, NewScript(yaml_content=reading.source.text), versions)

    async def _add_version(
        self, tenant: str, reading: Reading, script: Script, new: NewScript, versions: list[ScriptRow]
    ) -> SavedScript:
        """Add a version; description fields that it lacks are those of the latest of the `versions`. Raises IdTaken."""
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
        await self._store.scripts.save(row, text)
        return SavedScript(row, reading, new=True)

    @asynccontextmanager
    async def _change(self) -> AsyncIterator[None]:
        """Change versions within the context, one request at a time; what is published is read again afterwards."""
        async with self._saving:
            try:
                yield
            finally:
                self._published = LRUCache(PROGRAMS_MAX)

    async def memory_plan(self, tenant: str, digest: str) -> MemoryPlan:
        """Return the memory plan of the script with a digest."""
        return (await self.program(tenant, digest)).script.memory

    # -- versions ---------------------------------------------------------------------------------------------------

    async def publish_version(self, tenant: str, script_id: str, version: int | None) -> ScriptRow:
        """Publish a version, by default the latest: new sessions run it; later versions become drafts again.

        Raises ApiError SCRIPT_NOT_FOUND.
        """
        async with self._change():
            versions = await self.versions(tenant, script_id)
            return await self._publish(versions, versions[0] if version is None else _find_version(versions, version))

    async def _publish(self, versions: list[ScriptRow], target: ScriptRow) -> ScriptRow:
        later = {row.version for row in versions if row.status == "published" and row.version > target.version}
        statuses: dict[int, ScriptStatus] = {**dict.fromkeys(later, "draft"), target.version: "published"}
        if later or target.status != "published":
            await self._store.scripts.set_statuses(target.tenant, target.script_uuid, statuses, self._clock())
        return await self._again(target)

    async def archive(self, tenant: str, script_id: str, version: int | None) -> ScriptRow:
        """Archive a version or the whole script: no new session runs it, running sessions continue.

        Raises ApiError SCRIPT_NOT_FOUND.
        """
        async with self._change():
            versions = await self.versions(tenant, script_id)
            targets = versions if version is None else [_find_version(versions, version)]
            statuses: dict[int, ScriptStatus] = {row.version: "archived" for row in targets if row.status != "archived"}
            if statuses:
                await self._store.scripts.set_statuses(tenant, targets[0].script_uuid, statuses, self._clock())
            return await self._again(targets[0])

    async def describe(self, tenant: str, script_id: str, changes: ScriptChanges) -> ScriptRow:
        """Update a script in all its versions and return the latest version. Raises ApiError SCRIPT_NOT_FOUND."""
        async with self._change():
            latest = (await self.versions(tenant, script_id))[0]
            await self._store.scripts.describe(tenant, latest.script_uuid, changes, self._clock())
            return await self._again(latest)

    async def _again(self, row: ScriptRow) -> ScriptRow:
        return await self._store.scripts.get(row.tenant, row.script_uuid, row.version) or row

    # -- find -------------------------------------------------------------------------------------------------------

    async def find(self, tenant: str, script_id: str) -> ScriptRow:
        """Return a script by its uuid or its own id: the version that new sessions run, else the latest.

        Raises ApiError SCRIPT_NOT_FOUND.
        """
        return await self._latest_published(tenant, script_id) or (await self.versions(tenant, script_id))[0]

    async def published_version(self, tenant: str, script_id: str) -> ScriptRow:
        """Return the version that new sessions run. Raises ApiError SCRIPT_NOT_FOUND, SCRIPT_NOT_PUBLISHED."""
        row = await self._latest_published(tenant, script_id)
        if row is None:
            raise _not_published((await self.versions(tenant, script_id))[0])
        return row

    async def version_to_begin(self, tenant: str, script_id: str, version: int | None) -> ScriptRow:
        """Return a version with which a session may begin: the published one, or any other by number unless archived.

        Raises ApiError SCRIPT_NOT_FOUND, SCRIPT_NOT_PUBLISHED.
        """
        row = await self.version(tenant, script_id, version)
        if row.status == "archived":
            raise _not_published(row)
        return row

    async def _latest_published(self, tenant: str, script_id: str) -> ScriptRow | None:
        published = self._published  # another one after a change during the read
        row = published.get((tenant, script_id))
        if row is not None:
            return row
        row = await self._store.scripts.latest_published(tenant, script_id)
        if row is None and await self._builtin(tenant, script_id):
            row = await self._store.scripts.latest_published(tenant, script_id)
        if row is not None and self._store.shared is None:
            published[tenant, script_id] = row
        return row

    async def _builtin(self, tenant: str, script_id: str) -> bool:
        """Store a built-in script unless the tenant has one with that id; return whether it is built in."""
        reading = await asyncio.to_thread(read_builtin, script_id)
        if reading is None or reading.script is None:
            return False
        await self.publish(tenant, reading, reading.script)
        return True

    async def versions(self, tenant: str, script_id: str) -> list[ScriptRow]:
        """Return the last 1,000 versions of a script, the latest first. Raises ApiError SCRIPT_NOT_FOUND."""
        versions = await self._store.scripts.versions(tenant, script_id)
        if not versions:
            raise await self._not_found(tenant, script_id)
        return versions

    async def _not_found(self, tenant: str, script_id: str) -> ApiError:
        """Return the error for an id that no script has, with a similar one if there is one."""
        page = await self._store.scripts.page(tenant, ScriptFilter(), limit=NAMES_MAX, cursor=None)
        similar = suggest(script_id, [row.script_id for row in page.rows], otherwise="")
        message = f"Script not found. {similar}" if similar else "Script not found"
        return ApiError("SCRIPT_NOT_FOUND", message, context={"scriptId": script_id})

    async def version(self, tenant: str, script_id: str, version: int | None) -> ScriptRow:
        """Return a version of a script by number; without one the version that new sessions run.

        Raises ApiError SCRIPT_NOT_FOUND, SCRIPT_NOT_PUBLISHED.
        """
        if version is None:
            return await self.published_version(tenant, script_id)
        return _find_version(await self.versions(tenant, script_id), version)

    async def reading(self, row: ScriptRow) -> Reading:
        """Parse the text of a script again."""
        return await self._reading(row.tenant, row.digest)

    async def program(self, tenant: str, digest: str) -> Program:
        """Return the program of a digest. Raises ApiError SCRIPT_NOT_FOUND.

        A text that an earlier version of Cuebook accepted runs as far as it can be parsed, because sessions run on it.
        """
        return (await self._prepare(tenant, digest)).program

    async def valid_program(self, tenant: str, digest: str) -> Program:
        """Return the program for a session that starts on or migrates to it. Raises ApiError if it has errors now."""
        prepared = await self._prepare(tenant, digest)
        if prepared.errors:
            raise unusable(prepared.errors)
        return prepared.program

    async def program_in(self, locale: Locale, tenant: str, digest: str) -> Program:
        """Return the program of a digest with the texts of a language. Raises ApiError SCRIPT_NOT_FOUND."""
        program = await self.program(tenant, digest)
        table = table_for(program.script, locale)  # many languages share a table or have none
        if table is None:
            return program
        key = (tenant, digest, table.locale.casefold())
        prepared = self._programs.get(key) or _PreparedScript(program.in_locale(locale))
        self._programs[key] = prepared
        return prepared.program

    async def _prepare(self, tenant: str, digest: str) -> "_PreparedScript":
        key = (tenant, digest, "")
        prepared = self._programs.get(key)
        if prepared is None:
            reading = await self._reading(tenant, digest)
            if reading.draft is None:
                raise unusable(reading.errors)
            prepared = self._programs[key] = _PreparedScript(Program(reading.draft), reading.errors)
            if reading.errors:
                problem = str(reading.errors[0])
                log.warning("sessions run on a script that has errors now", digest=digest, problem=problem)
        return prepared

    async def _reading(self, tenant: str, digest: str) -> Reading:
        text = await self._store.scripts.text(tenant, digest)
        if text is None:
            raise ApiError("SCRIPT_NOT_FOUND", "the script's text is not in the database")
        return await asyncio.to_thread(read_script, Source(text.text, "", text.files), "compat")


async def _until_added(save: Callable[[], Awaitable[SavedScript]]) -> SavedScript:
    """Save a script; again if another server has meanwhile added the version of the same number. Raises StoreBusy."""
    for _ in range(ATTEMPTS_MAX):
        with suppress(IdTaken):
            return await save()
    raise StoreBusy("other servers add versions of the script at the same time")


def _find_published(versions: list[ScriptRow]) -> ScriptRow | None:
    return next((row for row in versions if row.status == "published"), None)


def _find_version(versions: list[ScriptRow], version: int) -> ScriptRow:
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
    """Return a reading with an error for an id of another file: both files would replace each other at every start."""
    return refuse(reading, "DUPLICATE_ID", f"the script {script_id} is in {first} already")


def refuse(reading: Reading, code: str, message: str) -> Reading:
    """Return a reading with an error for an id that another script has."""
    problem = problem_at(code, message, file=reading.source.file, fix="Give one of them another id.")
    return Reading(reading.source, None, (problem,))


def unusable(problems: tuple[Problem, ...]) -> ApiError:
    """Return the error that says why a script cannot be run."""
    first = problems[0]
    code = "SCRIPT_PARSE_ERROR" if first.code in PARSE_CODES else "SCRIPT_VALIDATION_ERROR"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    message = f"line {first.line}, column {first.column}: {first.message}{more}"
    return ApiError(code, message, details=list(map(_detail, problems)))


def _detail(problem: Problem) -> ErrorDetail:
    """Return a problem of a script as a detail of an error; its field is the path in the script."""
    fields = msgspec.structs.asdict(problem)
    return ErrorDetail(field=fields.pop("path"), **fields)
