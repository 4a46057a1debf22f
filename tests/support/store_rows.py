"""Rows of the store, and a conversation that makes them turn by turn."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec

from store.interface.hand_over_rows import HandOverRow
from store.interface.memory_rows import GroupRow, JobRow, MemoryCallRow, MemoryChange, OwnerRow, UnitRow, VectorRows
from store.interface.participant_rows import LinkRow, ParticipantRow
from store.interface.review_rows import QuestionRow, RatingRow, ReviewRow, TargetRow
from store.interface.rows import (
    NO_TURN,
    CallRow,
    DraftRow,
    EventRow,
    FailureRow,
    KeyRow,
    MessageRow,
    MigrationRow,
    ScriptRow,
    ScriptTextRow,
    SessionRow,
    SettledCallRow,
    TurnRow,
    Value,
    VariableRow,
)
from store.interface.timer_rows import TimerRow
from store.interface.webhook_rows import DeliveryRow, WebhookRow
from store.store import Store

MOMENT = datetime(2025, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
WEBHOOK = "22222222-0000-4000-8000-000000000000"


class Conversation:
    """A session whose turns are made one after the other, with two messages and three events each."""

    def __init__(self, tenant: str = "clinic", user_id: str = "ana", session_id: str | None = None) -> None:
        self.tenant = tenant
        self.user_id = user_id
        self.session_id = session_id or str(uuid4())
        self.turns = 0

    def session(
        self, key: str | None = None, idempotency_key: str | None = None, created_at: datetime = MOMENT
    ) -> SessionRow:
        return SessionRow(
            tenant=self.tenant,
            session_id=self.session_id,
            user_id=self.user_id,
            key=key,
            script_uuid="11111111-0000-4000-8000-000000000000",
            script_id="intake",
            script_version=1,
            digest="digest",
            locale=None,
            seed=7,
            metadata={},
            created_at=created_at,
            idempotency_key=idempotency_key,
        )

    def next_turn(
        self,
        *,
        variables: Sequence[VariableRow] = (),
        state: Value = "told",
        idempotency_key: str | None = None,
        status: str = "active",
    ) -> TurnRow:
        number = self.turns
        self.turns += 1
        return TurnRow(
            tenant=self.tenant,
            session_id=self.session_id,
            user_id=self.user_id,
            turn=number,
            started_at=MOMENT,
            finished_at=MOMENT,
            status=status,
            execution_status="waiting_input",
            phase_id="入门",
            topic_id="t",
            action_id="ask",
            action_type="ask",
            wait_kind="text",
            state=msgspec.Raw(msgspec.json.encode(state)),
            idempotency_key=idempotency_key,
            fingerprint=None,
            messages=[
                MessageRow(2 * number + 1, str(uuid4()), "user", f"question {number}", None, {}, MOMENT),
                MessageRow(2 * number + 2, str(uuid4()), "assistant", f"answer {number}", "ask", {}, MOMENT),
            ],
            variables=list(variables),
            events=[EventRow(3 * number + step, "message", {"step": step}) for step in (1, 2, 3)],
        )

    async def create(self, store: Store, key: str | None = None, idempotency_key: str | None = None) -> TurnRow:
        first = self.next_turn()
        await store.turns.commit(first, NO_TURN, self.session(key, idempotency_key))
        return first

    async def say(
        self,
        store: Store,
        variables: Sequence[VariableRow] = (),
        state: Value = "told",
        calls_used: tuple[str, ...] | None = None,
        deliveries: tuple[DeliveryRow, ...] = (),
        hand_overs: tuple[HandOverRow, ...] | None = None,
    ) -> TurnRow:
        following = self.next_turn(variables=variables, state=state)
        await store.turns.commit(
            following, following.turn - 1, calls_used=calls_used, deliveries=deliveries, hand_overs=hand_overs
        )
        return following

    def hand_over(self, **changes: object) -> HandOverRow:
        """Return a request for a person in the next turn."""
        row = HandOverRow(
            tenant=self.tenant,
            session_id=self.session_id,
            user_id=self.user_id,
            turn=self.turns,
            script_id="intake",
            status="requested",
            since=MOMENT,
            action_id="call",
            operator="",
            has_ended=False,
        )
        return msgspec.structs.replace(row, **changes)

    def delivery(self, webhook_id: str = WEBHOOK, number: int = 1, **changes: object) -> DeliveryRow:
        """Return a delivery of the next turn."""
        row = DeliveryRow(
            tenant=self.tenant,
            delivery_id=str(uuid4()),
            webhook_id=webhook_id,
            session_id=self.session_id,
            user_id=self.user_id,
            turn=self.turns,
            number=number,
            kind="turn",
            created_at=MOMENT + timedelta(seconds=self.turns),
            next_attempt_at=MOMENT + timedelta(seconds=self.turns),
            payload=msgspec.Raw('{"text":"你好"}'.encode()),
        )
        return msgspec.structs.replace(row, **changes)

    def call(self, call_id: str, number: int = 1, **changes: object) -> CallRow:
        """Return a call for the next turn that is about to be made."""
        row = CallRow(
            tenant=self.tenant,
            session_id=self.session_id,
            user_id=self.user_id,
            script_id="intake",
            script_version=1,
            turn=self.turns,
            number=number,
            call_id=call_id,
            purpose="ask",
            action_id="ask_name",
            round=1,
            model="main",
            request_digest=f"digest of {call_id}",
            started_at=MOMENT + timedelta(seconds=self.turns, milliseconds=number),
        )
        return msgspec.structs.replace(row, **changes)

    async def ask(self, store: Store, call_id: str, number: int = 1, **changes: object) -> CallRow:
        """Return a call, begun and ended."""
        begun = self.call(call_id, number)
        await store.turns.note_call(begun)
        ended = msgspec.structs.replace(begun, **(answered() | changes))
        await store.turns.note_call(ended)
        return ended

    def settled(self, call: CallRow, **changes: object) -> SettledCallRow:
        """Return a call as it is stored with its turn."""
        return SettledCallRow(**msgspec.structs.asdict(call) | changes)

    def migration(self, turn: int, digest: str = "digest 2", **changes: object) -> MigrationRow:
        """Return the move to the version with this digest, whose number is the last character."""
        row = MigrationRow(
            tenant=self.tenant,
            session_id=self.session_id,
            turn=turn,
            kind="migrate",
            verdict="safe",
            why=["`a` is `b` now"],
            from_script_uuid="11111111-0000-4000-8000-000000000000",
            from_script_id="intake",
            from_version=1,
            from_digest="digest",
            script_uuid="11111111-0000-4000-8000-000000000000",
            script_id="intake",
            script_version=int(digest[-1]),
            digest=digest,
            migrated_at=MOMENT,
        )
        return msgspec.structs.replace(row, **changes)

    async def migrate(self, store: Store, digest: str = "digest 2") -> MigrationRow:
        turn = self.next_turn()
        moved = self.migration(turn.turn, digest)
        await store.turns.commit(turn, turn.turn - 1, migration=moved)
        return moved


def answered() -> dict[str, object]:
    """Return what is known of a call that was answered."""
    return {
        "ended_at": MOMENT + timedelta(minutes=1),
        "outcome": "done",
        "endpoint_model": "clever-1",
        "prompt_digest": "p",
        "parameters": {"temperature": 0.5},
        "input_tokens": 100,
        "cached_tokens": 20,
        "output_tokens": 7,
        "counted": True,
        "cost": 0.25,
        "latency_ms": 350,
        "first_words_ms": 80,
        "attempts": 2,
        "failures": ["429"],
        "degraded": "",
        "reply": msgspec.Raw(b'{"text":"\xe4\xbd\xa0\xe5\xa5\xbd"}'),
    }


def write_of(name: str, new: Value, old: Value = None, scope: str = "session") -> VariableRow:
    return VariableRow(scope, name, old, new, "text", "ask", "user", None, None)  # type: ignore[arg-type]


def script_of(tenant: str = "clinic", uuid: str = "script-1", version: int = 1, **changes: object) -> ScriptRow:
    row = ScriptRow(
        tenant=tenant,
        script_uuid=uuid,
        script_id="intake",
        name="First visit",
        version=version,
        version_label="1.0",
        digest="digest",
        status="published",
        created_at=MOMENT,
        updated_at=MOMENT,
        tags=["adults", "成人"],
        author=None,
        description="Asks 100% of the questions",
    )
    return msgspec.structs.replace(row, **changes)


def draft_of(tenant: str = "clinic", script: str = "intake", revision: int = 1) -> DraftRow:
    return DraftRow(
        tenant=tenant,
        script_id=script,
        revision=revision,
        base_version=1,
        text="phases: [",
        files={"global.yaml": "x: 1\n"},
        created_at=MOMENT,
        updated_at=MOMENT,
    )


def text_of(tenant: str = "clinic", digest: str = "digest", text: str = "phases: []") -> ScriptTextRow:
    return ScriptTextRow(tenant, digest, text, {"global.yaml": "x: 1\n"}, "native")


def failure_of(conversation: Conversation, code: str = "LLM_SERVICE_ERROR") -> FailureRow:
    return FailureRow(conversation.tenant, conversation.session_id, 1, code, "no answer", "p", "t", "a", MOMENT)


def key_of(tenant: str = "clinic", key_id: str = "1", **changes: object) -> KeyRow:
    row = KeyRow(tenant, key_id, "our app", f"digest {key_id}", ["app", "author"], None, MOMENT)
    return msgspec.structs.replace(row, **changes)


def participant_of(tenant: str, user_id: str, session_id: str, **changes: object) -> ParticipantRow:
    row = ParticipantRow(
        tenant=tenant,
        participant_id=f"participant of {session_id}",
        link_id=None,
        user_id=user_id,
        session_id=session_id,
        script_id="visit",
        version=None,
        locale="de",
        timezone="Europe/Berlin",
        resume_digest=None,
        created_at=MOMENT,
        expires_at=MOMENT + timedelta(days=1),
    )
    return msgspec.structs.replace(row, **changes)


def link_of(tenant: str = "clinic", link_id: str = "our-study", **changes: object) -> LinkRow:
    row = LinkRow(
        tenant=tenant,
        link_id=link_id,
        script_id="visit",
        version=2,
        users="named",
        resumes=True,
        sessions_max=10,
        access_days=90,
        initial_variables={"place": "the lab"},
        locale=None,
        created_at=MOMENT,
        expires_at=MOMENT + timedelta(days=1),
    )
    return msgspec.structs.replace(row, **changes)


def webhook_of(tenant: str = "clinic", webhook_id: str = WEBHOOK, **changes: object) -> WebhookRow:
    row = WebhookRow(
        tenant=tenant,
        webhook_id=webhook_id,
        url="https://example.org/hook",
        events=["turn", "emit:预约*"],
        description="Books",
        status="active",
        secret_id=str(uuid4()),
        created_at=MOMENT,
        updated_at=MOMENT,
    )
    return msgspec.structs.replace(row, **changes)


def unit_of(sequence: int, tenant: str = "clinic", user_id: str = "ana", **changes: object) -> UnitRow:
    """Return a note in a collection, with these changes."""
    row = UnitRow(
        tenant=tenant,
        user_id=user_id,
        unit_id=f"unit-{sequence}",
        sequence=sequence,
        group_id="diary",
        content=f"note {sequence}",
        source="user",
        creation_time=MOMENT + timedelta(minutes=sequence),
        end_time=MOMENT + timedelta(minutes=sequence),
        last_visit=sequence,
        trust="conversation",
        valid_from=MOMENT,
    )
    return msgspec.structs.replace(row, **changes)


def memory_of(tenant: str, user_id: str, session_id: str, word: str, sequence: int) -> MemoryChange:
    """Return a memory with a row in each of its tables, of one session."""
    owner = OwnerRow(
        tenant=tenant, user_id=user_id, memory_id=f"memory-{user_id}", sequence=sequence, created_at=MOMENT
    )
    group = GroupRow(tenant=tenant, user_id=user_id, group_id=session_id, session_id=session_id, created_at=MOMENT)
    unit = unit_of(sequence, tenant, user_id, group_id=session_id, session_id=session_id, content=word)
    job = JobRow(
        tenant=tenant,
        user_id=user_id,
        job_id=str(uuid4()),
        kind="forget",
        options={"said": word},
        status="queued",
        created_at=MOMENT,
        updated_at=MOMENT,
    )
    vectors = VectorRows("hashed:1", [sequence], [session_id], [word.encode()])
    return MemoryChange(
        tenant=tenant, user_id=user_id, owner=owner, groups=[group], units=[unit], vectors=vectors, jobs=[job]
    )


def memory_call_of(tenant: str, user_id: str, call_id: str, **changes: object) -> MemoryCallRow:
    """Return a call for a memory that is about to be made, unless the changes say more."""
    row = MemoryCallRow(
        tenant=tenant,
        user_id=user_id,
        call_id=call_id,
        purpose="summarise",
        model="tiny",
        request_digest="d1",
        started_at=MOMENT,
    )
    return msgspec.structs.replace(row, **changes)


def timer_of(tenant: str, user_id: str, session_id: str) -> TimerRow:
    """Return a timer of a session."""
    return TimerRow(
        tenant=tenant,
        session_id=session_id,
        user_id=user_id,
        turn=0,
        timer_id="1:pause:wait:3 days",
        kind="wait",
        action_id="pause",
        moment="3 days",
        due=MOMENT,
        next_attempt_at=MOMENT,
    )


def review_of(**changes: object) -> ReviewRow:
    """Return a review with a scale, a choice and a text."""
    row = ReviewRow(
        tenant="clinic",
        review_id="review-1",
        name="Empathy",
        instructions="",
        unit="session",
        questions=[
            QuestionRow(question_id="warm", text="How warm?", kind="scale", min=1, max=5),
            QuestionRow(question_id="safe", text="Safe?", kind="choice", choices=["yes", "no"]),
            QuestionRow(question_id="remarks", text="What else?", kind="text"),
        ],
        is_blind=True,
        created_at=MOMENT,
    )
    return msgspec.structs.replace(row, **changes)


def target_of(session_id: str, number: int = 1, **changes: object) -> TargetRow:
    row = TargetRow(tenant="clinic", review_id="review-1", number=number, session_id=session_id, turn=None)
    return msgspec.structs.replace(row, **changes)


def rating_of(session_id: str, rater: str = "rita", **changes: object) -> RatingRow:
    row = RatingRow(
        tenant="clinic",
        review_id="review-1",
        session_id=session_id,
        turn=None,
        rater=rater,
        answers={"warm": 4, "safe": "yes"},
        texts={"remarks": "She said her name is Angharad."},
        rated_at=MOMENT,
    )
    return msgspec.structs.replace(row, **changes)
