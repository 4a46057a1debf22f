"""Imports a session into the database: one of Cuebook unchanged, one of another system as a free conversation."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import TypeAlias
from uuid import uuid5

import msgspec
from msgspec import Struct

from api.background import within
from api.catalog.catalog import NAMESPACE, Catalog
from api.errors import ApiError, invalid_field
from api.schemas.errors import ErrorDetail
from api.schemas.ids import has_control
from api.schemas.session_lists import ImportView
from api.sessions import row_mapping
from api.sessions.chat import Chat
from api.sessions.turn_runner import TurnRunner
from api.transfer.document import FORMAT, SessionDocumentFile
from api.transfer.document_reader import Kind, read_document
from api.transfer.import_report import DocumentInvalid, ImportReport
from api.transfer.import_rows import Owner, build_rows
from api.transfer.imported_conversation import ImportedConversation, language_of, turns_of
from runtime.state.program import Program
from scripts.builtin import CHAT, read_builtin
from store.interface.errors import KeyTaken, RowRefused, SessionTaken
from store.interface.rows import MigrationRow, ScriptTextRow, SessionDocument, SessionRow, is_uuid

_Numbers: TypeAlias = Mapping[tuple[str, str], tuple[str, int | None]]
"""By id and digest of a script: its UUID here, and the number of the version with this text, if there is one."""

IMPORTS_MAX = 2  # at a time, because a document is in memory as a whole
DETAILS_MAX = 20
STRANGER = "imported"
"""The user of a session that names no user and has no key."""


class ImportOptions(Struct, frozen=True, kw_only=True):
    """How a document is imported."""

    kind: Kind
    user_id: str | None = None
    key: str | None = None
    file_name: str = ""
    path: str = ""
    replace: bool = False
    copy: bool = False
    dry_run: bool = False
    bound_to: str | None = None  # the only user whose sessions may be replaced; None: all users


class SessionImporter:
    """Imports sessions of all tenants."""

    def __init__(self, chat: Chat, runner: TurnRunner, catalog: Catalog) -> None:
        self._chat = chat
        self._runner = runner
        self._catalog = catalog
        self._free = asyncio.Semaphore(IMPORTS_MAX)

    async def load(self, tenant: str, content: bytes, options: ImportOptions) -> ImportView:
        """Import a document, completely or not at all. Raises ApiError."""
        if options.replace and options.copy:
            raise invalid_field("copy", "it cannot be combined with `replace`")
        async with within(self._runner.settings.queue_s, ApiError("SERVER_BUSY", "other sessions are being imported")):
            await self._free.acquire()
        try:
            return await self._chat.run_shielded(self._load(tenant, content, options))
        finally:
            self._free.release()

    async def _load(self, tenant: str, content: bytes, options: ImportOptions) -> ImportView:
        report = ImportReport()
        try:
            document = await asyncio.to_thread(
                read_document, content, options.kind, options.file_name, options.path, report
            )
            if isinstance(document, SessionDocumentFile):
                whole, replaces = await self._read_cuebook(tenant, document, options)
            else:
                digest = hashlib.sha256(content).hexdigest()
                whole, replaces = await self._read_foreign(tenant, document, digest, options)
        except DocumentInvalid as error:
            raise ApiError("DOCUMENT_INVALID", str(error), details=_details(report)) from error
        if not options.dry_run:
            await self._write(whole, replaces=replaces)
        return ImportView.of(
            report,
            whole.session,
            dry_run=options.dry_run,
            format=FORMAT if isinstance(document, SessionDocumentFile) else document.format,
            script_version=whole.migrations[-1].script_version if whole.migrations else whole.session.script_version,
            turns=len(whole.turns),
            messages=sum(len(turn.messages) for turn in whole.turns),
            replaced=replaces,
        )

    # -- rows -----------------------------------------------------------------------------------------------------

    async def _read_cuebook(
        self, tenant: str, document: SessionDocumentFile, options: ImportOptions
    ) -> tuple[SessionDocument, bool]:
        part = document.session
        if not is_uuid(part.session_id):
            raise DocumentInvalid("session: its session_id is not a UUID")
        key = options.key or (None if options.copy else part.key)
        session_id, replaces = await self._place(tenant, part.session_id, key, options)
        owner = Owner(tenant, session_id, options.user_id or part.user_id)
        whole = await asyncio.to_thread(build_rows, document, owner, key, copied=session_id != part.session_id)
        return await self._with_versions(whole), replaces

    async def _read_foreign(
        self, tenant: str, conversation: ImportedConversation, digest: str, options: ImportOptions
    ) -> tuple[SessionDocument, bool]:
        key = options.key or (None if options.copy else conversation.key)
        if any(has_control(each) for each in (key, conversation.user_id) if each is not None):
            raise DocumentInvalid("its key or user contains a control character or a line break")
        # the same id for the same document, so that a document that is sent twice is one session
        own_id = str(uuid5(NAMESPACE, f"{tenant}\0{key}\0{digest}"))
        session_id, replaces = await self._place(tenant, own_id, key, options)
        now = self._runner.clock()
        text = await asyncio.to_thread(read_builtin, CHAT)
        if text is None or text.script is None:
            raise ApiError("SCRIPT_NOT_FOUND", "Script not found", context={"scriptId": CHAT})
        program = Program(text.script)
        session = SessionRow(
            tenant=tenant,
            session_id=session_id,
            user_id=options.user_id or conversation.user_id or key or STRANGER,
            key=key,
            script_uuid=_uuid_of(tenant, CHAT),
            script_id=CHAT,
            script_version=1,
            digest=text.source.digest,
            locale=self._runner.settings.locale or language_of(conversation.messages) or program.locale,
            seed=row_mapping.seed_of(session_id),
            metadata=dict(conversation.metadata),
            created_at=min(conversation.created_at or now, now),
            idempotency_key=None,
        )
        turns = await turns_of(conversation, session, program, self._runner.ids)
        if not options.dry_run:
            await self._catalog.find(tenant, CHAT)  # as for a session that is created without a script
        texts = [ScriptTextRow(tenant, session.digest, text.source.text, {}, text.script.form)]
        return await self._with_versions(SessionDocument(session=session, turns=turns, texts=texts)), replaces

    async def _place(self, tenant: str, own_id: str, key: str | None, options: ImportOptions) -> tuple[str, bool]:
        """Return the id of the session, and whether it replaces the session with that id. Raises ApiError."""
        by_key = await self._runner.store.sessions.by_key(tenant, key) if key is not None else None
        if options.copy:
            if by_key is not None:
                raise _key_exists(key, by_key.session_id)
            return self._runner.ids(), False
        by_id = await self._runner.store.sessions.start(tenant, own_id)
        existing = by_key or by_id
        if existing is None:
            return own_id, False
        if by_id is not None and by_id.session_id != existing.session_id:
            raise _key_exists(key, existing.session_id)
        if not options.replace or options.bound_to not in {None, existing.user_id}:
            raise _key_exists(key, existing.session_id) if by_key is not None else _id_exists(existing.session_id)
        return existing.session_id, True

    async def _with_versions(self, whole: SessionDocument) -> SessionDocument:
        """Return the session with versions of this catalog that have the same texts; nothing is published."""
        tenant = whole.session.tenant
        numbers: dict[tuple[str, str], tuple[str, int | None]] = {}
        runs = [(whole.session.script_id, whole.session.digest)]
        runs += [(move.script_id, move.digest) for move in whole.migrations]
        for script_id, digest in set(runs):
            latest = await self._runner.store.scripts.latest_published(tenant, script_id)
            script_uuid = latest.script_uuid if latest is not None else _uuid_of(tenant, script_id)
            versions = await self._runner.store.scripts.versions(tenant, script_uuid)
            same = next((each.version for each in versions if each.digest == digest), None)
            numbers[script_id, digest] = script_uuid, same
        return msgspec.structs.replace(
            whole,
            session=_renumber(whole.session, numbers),
            migrations=[_renumbered_move(move, numbers) for move in whole.migrations],
        )

    # -- write ------------------------------------------------------------------------------------------------------

    async def _write(self, whole: SessionDocument, *, replaces: bool) -> None:
        session = whole.session
        by_id = await self._runner.store.sessions.start(session.tenant, session.session_id) if replaces else None
        async with (
            self._chat.creations.begin((session.tenant, session.user_id)),
            self._chat.locks.hold((session.tenant, session.session_id)),
            self._runner.memory_system.exclusive_for_erasure(
                session.tenant, session.user_id if by_id is None else by_id.user_id
            ),
        ):
            try:
                await self._runner.store.sessions.import_session(whole, replaces=replaces)
            except SessionTaken as error:
                raise _id_exists(error.session_id) from error
            except KeyTaken as error:
                if error.field != "key":
                    raise _id_exists(error.session_id) from error
                raise _key_exists(error.key, error.session_id) from error
            except RowRefused as error:
                raise ApiError("DOCUMENT_INVALID", "it contains values that the database cannot store") from error
            finally:
                self._runner.memory_system.cache.invalidate(session.tenant, session.user_id)
                if replaces:
                    self._chat.evict(session.tenant, session.session_id)


def _uuid_of(tenant: str, script_id: str) -> str:
    """Return the UUID that the catalog gives a script when it is first published."""
    return str(uuid5(NAMESPACE, f"{tenant}\0{script_id}"))


def _renumber(session: SessionRow, numbers: _Numbers) -> SessionRow:
    script_uuid, version = _here(numbers, session.script_id, session.digest, session.script_version)
    return msgspec.structs.replace(session, script_uuid=script_uuid, script_version=version)


def _renumbered_move(move: MigrationRow, numbers: _Numbers) -> MigrationRow:
    script_uuid, version = _here(numbers, move.script_id, move.digest, move.script_version)
    from_uuid, from_version = _here(numbers, move.from_script_id, move.from_digest, move.from_version)
    return msgspec.structs.replace(
        move, script_uuid=script_uuid, script_version=version, from_script_uuid=from_uuid, from_version=from_version
    )


def _here(numbers: _Numbers, script_id: str, digest: str, version: int) -> tuple[str, int]:
    """Return the UUID of a script here, and the number of its version, by default that of the document."""
    script_uuid, same = numbers[script_id, digest]
    return script_uuid, version if same is None else same


def _id_exists(session_id: str) -> ApiError:
    message = "a session with this id exists; `replace` replaces it, `copy` imports a copy with a new id"
    return ApiError("SESSION_EXISTS", message, context={"sessionId": session_id})


def _key_exists(key: str | None, session_id: str) -> ApiError:
    message = (
        "a session with this key exists; `replace` replaces it, `copy` imports a copy without a key, `key` sets another"
    )
    return ApiError("SESSION_KEY_EXISTS", message, context={"key": key, "sessionId": session_id})


def _details(report: ImportReport) -> list[ErrorDetail]:
    return [ErrorDetail(message=each.reason, line=each.line) for each in report.skipped[:DETAILS_MAX]]
