"""Brings a session into the record: one of Cuebook's own as it was, one of another system as a free conversation."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import TypeAlias
from uuid import uuid5

import msgspec
from msgspec import Struct

from api import rows
from api.catalogue import NAMESPACE, Catalogue
from api.chat import Chat
from api.errors import ApiError
from api.ids import has_control
from api.running import Running
from api.transfer.conversation import Conversation, turns_of
from api.transfer.document import FORMAT, Document
from api.transfer.problems import Account, DocumentInvalid, Skipped
from api.transfer.reading import Kind, read_document
from api.transfer.rebuilding import Owner, rebuilt
from runtime.program import Program
from scripts.builtin import CHAT, read_builtin
from store.bringing import WholeSession
from store.errors import KeyTaken, RowRefused, SessionTaken
from store.rows import MigrationRow, ScriptTextRow, SessionRow, is_uuid

_Numbers: TypeAlias = Mapping[tuple[str, str], tuple[str, int | None]]
"""By id and digest of a script, its UUID here and the number of the version that has this text, if one has."""

IMPORTS_MAX = 2  # at a time: a document is in memory as a whole
DETAILS_MAX = 20
STRANGER = "imported"
"""The user of a session that names none, and has no key."""


class Wanted(Struct, frozen=True, kw_only=True):
    """How a document is to be taken."""

    kind: Kind
    user_id: str | None = None
    key: str | None = None
    file_name: str = ""
    path: str = ""
    replace: bool = False
    copy: bool = False
    dry_run: bool = False
    bound_to: str | None = None  # the one user whose sessions may be replaced; None: anybody's


class Imported(Struct, frozen=True, kw_only=True):
    """What came of a document, or would come."""

    format: str
    session: SessionRow
    script_version: int  # of the script it runs now
    turns: int
    messages: int
    replaced: bool
    skipped: list[Skipped]
    skipped_count: int
    remarks: list[str]


class Importing:
    """The imports of all tenants."""

    def __init__(self, chat: Chat, running: Running, catalogue: Catalogue) -> None:
        self._chat = chat
        self._record = running.record
        self._clock = running.clock
        self._ids = running.ids
        self._house = running.house
        self._catalogue = catalogue
        self._queue_s = running.settings.queue_s
        self._locale = running.settings.locale
        self._free = asyncio.Semaphore(IMPORTS_MAX)

    async def load(self, tenant: str, content: bytes, wanted: Wanted) -> Imported:
        """Imports a document, all or nothing. Raises ApiError."""
        if wanted.replace and wanted.copy:
            raise ApiError("REQUEST_INVALID", "`replace` and `copy` do not go together")
        try:
            async with asyncio.timeout(self._queue_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise ApiError("SERVER_BUSY", "other sessions are being imported") from error
        try:
            return await self._chat.to_its_end(self._load(tenant, content, wanted))
        finally:
            self._free.release()

    async def _load(self, tenant: str, content: bytes, wanted: Wanted) -> Imported:
        account = Account()
        try:
            found = await asyncio.to_thread(read_document, content, wanted.kind, wanted.file_name, wanted.path, account)
            if isinstance(found, Document):
                whole, replaces = await self._own(tenant, found, wanted)
            else:
                digest = hashlib.sha256(content).hexdigest()
                whole, replaces = await self._foreign(tenant, found, digest, wanted)
        except DocumentInvalid as error:
            raise ApiError("DOCUMENT_INVALID", str(error), details=_details(account)) from error
        if not wanted.dry_run:
            await self._bring(whole, replaces=replaces)
        return Imported(
            format=FORMAT if isinstance(found, Document) else found.format,
            session=whole.session,
            script_version=whole.migrations[-1].script_version if whole.migrations else whole.session.script_version,
            turns=len(whole.turns),
            messages=sum(len(turn.messages) for turn in whole.turns),
            replaced=replaces,
            skipped=account.skipped,
            skipped_count=account.skipped_count,
            remarks=account.remarks,
        )

    # -- what it becomes ------------------------------------------------------------------------------------------

    async def _own(self, tenant: str, document: Document, wanted: Wanted) -> tuple[WholeSession, bool]:
        part = document.session
        if not is_uuid(part.session_id):
            raise DocumentInvalid("session: its session_id is no UUID")
        key = wanted.key or (None if wanted.copy else part.key)
        session_id, replaces = await self._place(tenant, part.session_id, key, wanted)
        owner = Owner(tenant, session_id, wanted.user_id or part.user_id)
        whole = await asyncio.to_thread(rebuilt, document, owner, key, copied=session_id != part.session_id)
        return await self._with_versions(whole), replaces

    async def _foreign(
        self, tenant: str, conversation: Conversation, digest: str, wanted: Wanted
    ) -> tuple[WholeSession, bool]:
        key = wanted.key or (None if wanted.copy else conversation.key)
        if any(has_control(each) for each in (key, conversation.user_id) if each is not None):
            raise DocumentInvalid("its key or user holds a control character or a line break")
        # the same again for the same document: one that is sent twice is one session
        own_id = str(uuid5(NAMESPACE, f"{tenant}\0{key}\0{digest}"))
        session_id, replaces = await self._place(tenant, own_id, key, wanted)
        now = self._clock()
        text = await asyncio.to_thread(read_builtin, CHAT)
        if text is None or text.script is None:
            raise ApiError("SCRIPT_NOT_FOUND", "Script not found", context={"scriptId": CHAT})
        program = Program(text.script)
        session = SessionRow(
            tenant=tenant,
            session_id=session_id,
            user_id=wanted.user_id or conversation.user_id or key or STRANGER,
            key=key,
            script_uuid=_uuid_of(tenant, CHAT),
            script_id=CHAT,
            script_version=1,
            digest=text.source.digest,
            locale=self._locale or program.locale,
            seed=rows.seed_of(session_id),
            metadata=dict(conversation.metadata),
            created_at=min(conversation.created_at or now, now),
            idempotency_key=None,
        )
        turns = await turns_of(conversation, session, program, self._ids)
        if not wanted.dry_run:
            await self._catalogue.find(tenant, CHAT)  # as for a session that is begun without a script
        texts = [ScriptTextRow(tenant, session.digest, text.source.text, {}, text.script.form)]
        return await self._with_versions(WholeSession(session=session, turns=turns, texts=texts)), replaces

    async def _place(self, tenant: str, own_id: str, key: str | None, wanted: Wanted) -> tuple[str, bool]:
        """The id the session gets, and whether it takes the place of the one that has it. Raises ApiError."""
        by_key = await self._record.session_by_key(tenant, key) if key is not None else None
        if wanted.copy:
            if by_key is not None:
                raise _key_taken(key, by_key.session_id)
            return self._ids(), False
        there = await self._record.session_start(tenant, own_id)
        taken = by_key or there
        if taken is None:
            return own_id, False
        if there is not None and there.session_id != taken.session_id:
            raise _key_taken(key, taken.session_id)
        if not wanted.replace or wanted.bound_to not in {None, taken.user_id}:
            raise _key_taken(key, taken.session_id) if by_key is not None else _taken(taken.session_id)
        return taken.session_id, True

    async def _with_versions(self, whole: WholeSession) -> WholeSession:
        """The session on the scripts of this catalogue, where it has the very texts; nothing is published."""
        tenant = whole.session.tenant
        numbers: dict[tuple[str, str], tuple[str, int | None]] = {}
        runs = [(whole.session.script_id, whole.session.digest)]
        runs += [(move.script_id, move.digest) for move in whole.migrations]
        for script_id, digest in set(runs):
            latest = await self._record.latest_published(tenant, script_id)
            script_uuid = latest.script_uuid if latest is not None else _uuid_of(tenant, script_id)
            versions = await self._record.script_versions(tenant, script_uuid)
            same = next((each.version for each in versions if each.digest == digest), None)
            numbers[script_id, digest] = script_uuid, same
        return msgspec.structs.replace(
            whole,
            session=_renumbered(whole.session, numbers),
            migrations=[_renumbered_move(move, numbers) for move in whole.migrations],
        )

    # -- what is done with it ---------------------------------------------------------------------------------------

    async def _bring(self, whole: WholeSession, *, replaces: bool) -> None:
        session = whole.session
        there = await self._record.session_start(session.tenant, session.session_id) if replaces else None
        async with (
            self._chat.beginning(session.tenant, session.user_id),
            self._chat.alone(session.tenant, session.session_id),
            self._house.removing(session.tenant, session.user_id if there is None else there.user_id),
        ):
            try:
                await self._record.bring_session(whole, replaces=replaces)
            except SessionTaken as error:
                raise _taken(error.session_id) from error
            except KeyTaken as error:
                if error.field != "key":
                    raise _taken(error.session_id) from error
                raise _key_taken(error.key, error.session_id) from error
            except RowRefused as error:
                raise ApiError("DOCUMENT_INVALID", "it holds something that the record cannot keep") from error
            finally:
                self._house.banks.turned(session.tenant, session.user_id)
                if replaces:
                    self._chat.removed(session.tenant, session.session_id)


def _uuid_of(tenant: str, script_id: str) -> str:
    """The id that the catalogue gives a script when it is first published."""
    return str(uuid5(NAMESPACE, f"{tenant}\0{script_id}"))


def _renumbered(session: SessionRow, numbers: _Numbers) -> SessionRow:
    script_uuid, version = numbers[session.script_id, session.digest]
    version = session.script_version if version is None else version
    return msgspec.structs.replace(session, script_uuid=script_uuid, script_version=version)


def _renumbered_move(move: MigrationRow, numbers: _Numbers) -> MigrationRow:
    script_uuid, version = numbers[move.script_id, move.digest]
    from_uuid, from_version = numbers[move.from_script_id, move.from_digest]
    return msgspec.structs.replace(
        move,
        script_uuid=script_uuid,
        script_version=move.script_version if version is None else version,
        from_script_uuid=from_uuid,
        from_version=move.from_version if from_version is None else from_version,
    )


def _taken(session_id: str) -> ApiError:
    message = "a session with this id is there already; `replace` puts this one in its place, `copy` beside it"
    return ApiError("SESSION_EXISTS", message, context={"sessionId": session_id})


def _key_taken(key: str | None, session_id: str) -> ApiError:
    message = "a session with this key is there already; `replace` puts this one in its place, `key` gives it another"
    return ApiError("SESSION_KEY_TAKEN", message, context={"key": key, "sessionId": session_id})


def _details(account: Account) -> list[dict[str, object]]:
    return [{"line": each.line, "reason": each.reason} for each in account.skipped[:DETAILS_MAX]]
