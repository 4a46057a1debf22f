"""Sessions made up at random, as the rows of the model that an analytics file would have of them."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import duckdb
import msgspec

from store.analytics.file import MODEL_VERSION, report_macros, run_sql, sql_of

START = datetime(2025, 3, 1, 9, 0, tzinfo=UTC)
AS_OF = START + timedelta(days=45)
TABLES = (
    "scripts", "script_actions", "script_arms", "sessions", "turns", "messages", "action_visits", "scope_visits",
    "waits", "variable_history", "llm_calls", "detections", "exposures",
)  # fmt: skip
SCRIPTS = {
    ("intake", 1): {
        "meet": {"hello": ["say_1", "ask_1"], "mood": ["choose_1", "ai_ask_1"]},
        "part": {"bye": ["say_1"]},
    },
    ("intake", 2): {
        "meet": {"hello": ["ask_1", "say_2"], "mood": ["ai_ask_1", "call_1"]},
        "work": {"form": ["form_1"], "hello": ["ask_1"]},
        "part": {"bye": ["say_1", "ask_2"]},
    },
    ("check", 1): {"only": {"hello": ["ask_1", "ask_2"]}, "never": {"never": ["say_1"]}},
}
ARMS = {"greeting": ("user", ["b", "a", "c"]), "length": ("session", ["c", "b", "a"])}
ENDS = ("script", "script", "script", "end_action", "user", "application", "rounds", "expired", None)
QUESTIONS = ("ask", "ai_ask", "choose", "form")


class Model:
    """The tables of an analytics file, each a list of rows."""

    def __init__(self) -> None:
        self.as_of = AS_OF
        self.is_masked = False
        self.file: Path | None = None
        for table in TABLES:
            setattr(self, table, [])

    def __getattr__(self, table: str) -> list[SimpleNamespace]:
        raise AttributeError(table)

    def add(self, table: str, **row: Any) -> SimpleNamespace:
        rows: list[SimpleNamespace] = getattr(self, table)
        rows.append(SimpleNamespace(**row))
        return rows[-1]

    def written(self) -> duckdb.DuckDBPyConnection:
        """Return a database with these rows and the reports."""
        connection = duckdb.connect(":memory:")
        connection.execute("SET TimeZone = 'UTC'")
        run_sql(connection, sql_of("tables"))
        run_sql(connection, report_macros())
        for table in TABLES:
            self._fill(connection, table)
        connection.execute(
            f"INSERT INTO about VALUES ({MODEL_VERSION}, 'clinic', ?, ?::TIMESTAMPTZ, 0, 0, 0, 0)",
            [self.is_masked, self.as_of.isoformat()],
        )
        return connection

    def _fill(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        columns = connection.execute(
            "SELECT column_name, data_type, is_nullable FROM duckdb_columns() WHERE table_name = ?", [table]
        ).fetchall()
        neutral = {"VARCHAR": "", "INTEGER": 0, "DOUBLE": 0.0, "BOOLEAN": False, "VARCHAR[]": []}
        kinds = {
            name: kind if kind != "TIMESTAMP WITH TIME ZONE" else "TIMESTAMPTZ" for name, kind, is_nullable in columns
        }
        rows = [
            {
                name: getattr(row, name, None if is_nullable else neutral.get(kind, str(START)))
                for name, kind, is_nullable in columns
            }
            for row in getattr(self, table)
        ]
        connection.execute(
            f"INSERT INTO {table} BY NAME SELECT unnest(from_json(?::JSON, ?), max_depth := 2)",
            [msgspec.json.encode(rows).decode(), msgspec.json.encode([kinds]).decode()],
        )


class Traffic:
    """Sessions as they might have been, over the scripts above."""

    def __init__(self, seed: int, sessions: int = 60) -> None:
        self.dice = random.Random(seed)
        self.model = Model()
        for (script, version), phases in SCRIPTS.items():
            self._script(script, version, phases)
        for _ in range(sessions):
            self._session()

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def _script(self, script: str, version: int, phases: dict[str, dict[str, list[str]]]) -> None:
        digest = f"{script}-{version}"
        self.model.add(
            "scripts", script_id=script, version=version, digest=digest, status="published", script_uuid="", name=""
        )
        for experiment, (unit, arms) in ARMS.items():
            for position, arm in enumerate(arms if version == 1 else sorted(arms), 1):
                self.model.add(
                    "script_arms", digest=digest, script_id=script, experiment=experiment, unit=unit, arm=arm,
                    position=position, weight=1,
                )  # fmt: skip
        number = 0
        topics = [
            (p, phase, t, topic) for p, (phase, of) in enumerate(phases.items(), 1) for t, topic in enumerate(of, 1)
        ]
        for p, phase, t, topic in topics:
            for action in phases[phase][topic]:
                number += 1
                self._outline(digest, script, number, (phase, p, topic, t), action, version)
        self._outline(digest, script, number + 1, ("", 0, "breathe", 0), "ask_1", version)

    def _outline(
        self, digest: str, script: str, number: int, place: tuple[str, int, str, int], action: str, version: int
    ) -> None:
        phase, p, topic, t = place
        self.model.add(
            "script_actions", digest=digest, script_id=script, position=number, phase_id=phase, phase_position=p,
            topic_id=topic, topic_position=t, action_id=action, action_type=action.rpartition("_")[0],
            is_question=action.rpartition("_")[0] in QUESTIONS, says=f"{topic} {action} of {version}",
        )  # fmt: skip

    def _session(self) -> None:
        dice = self.dice
        script, version = dice.choice(list(SCRIPTS))
        moved = (script, version + 1) in SCRIPTS and self.chance(0.15)
        created = START + timedelta(seconds=dice.randrange(40 * 86_400))
        walk = Walk(self, script, version, created)
        walk.run()
        status = dice.choices(["active", "paused", "failed"], [8, 1, 1])[0] if walk.is_stopped else "completed"
        self.model.turns[-1].status = status
        last = walk.now
        self.model.add(
            "sessions", session_id=walk.session_id, user_id=walk.user_id, number=1, script_uuid="", script_id=script,
            script_version=version + moved, first_version=version, digest=f"{script}-{version + moved}",
            forked_from=UUID(int=dice.getrandbits(128)) if self.chance(0.1) else None, created_at=created,
            updated_at=last, completed_at=last if status == "completed" else None,
            seconds=(last - created).total_seconds(), status=status, execution_status="", turn=walk.turn,
            ended_by=dice.choice(ENDS) if status == "completed" else None,
            outcome=dice.choice(["completed", "refused", None]) if status == "completed" else None,
            phase_id=walk.stands[0], topic_id=walk.stands[1], action_id=walk.stands[2], message_count=walk.heard * 2,
            user_messages=walk.heard, event_count=walk.seq, is_redacted=False,
        )  # fmt: skip


class Walk:
    """One session, from its first action to where it stopped."""

    def __init__(self, traffic: Traffic, script: str, version: int, created: datetime) -> None:
        self.traffic, self.dice, self.model = traffic, traffic.dice, traffic.model
        self.now, self.turn, self.seq, self.heard = created, 0, 0, 0
        self.session_id = UUID(int=self.dice.getrandbits(128))
        self.user_id = f"user {self.dice.randrange(12)}"
        self.of = {
            "session_id": self.session_id,
            "user_id": self.user_id,
            "script_id": script,
            "script_version": version,
        }
        self.digest = f"{script}-{version}"
        self.phases = SCRIPTS[script, version]
        self.stands: tuple[str | None, str | None, str | None] = (None, None, None)
        self.is_stopped = False
        self.visits: dict[tuple[str | None, ...], int] = {}

    def run(self) -> None:
        self._turn()
        for phase, topics in self.phases.items():
            if self.is_stopped:
                return
            with_phase = self._scope("phase", phase, None)
            for topic, actions in topics.items() if with_phase is not None else ():
                for _ in range(1 + self.traffic.chance(0.15)):  # some come back to a topic
                    self._topic(phase, topic, actions)
            if with_phase is not None:
                self._leave(with_phase)
        self.stands = self.stands if self.is_stopped else (None, None, None)

    def _topic(self, phase: str, topic: str, actions: list[str]) -> None:
        if self.is_stopped:
            return
        visit = self._scope("topic", phase, topic)
        for action in actions if visit is not None else ():
            if not self.is_stopped:
                self._action(phase, topic, action, None)
        if visit is not None:
            self._leave(visit)

    def _scope(self, scope: str, phase: str, topic: str | None) -> SimpleNamespace | None:
        skipped = self.traffic.chance(0.15)
        row = self.model.add("scope_visits", scope=scope, **self._entered((scope, phase, topic), phase, topic, skipped))
        return None if skipped else row

    def _entered(self, key: tuple[str | None, ...], phase: str, topic: str | None, skipped: bool) -> dict[str, Any]:
        self.seq += 1
        if not skipped:
            self.visits[key] = self.visits.get(key, 0) + 1
        return self.of | {
            "digest": self.digest, "phase_id": phase, "topic_id": topic, "seq": self.seq, "entered_turn": self.turn,
            "entered_at": self.now, "visit": 0 if skipped else self.visits[key],
            "left_seq": self.seq if skipped else None, "left_turn": self.turn if skipped else None,
            "outcome": "skipped" if skipped else "open",
        }  # fmt: skip

    def _leave(self, visit: SimpleNamespace, outcome: str = "left") -> None:
        if not self.is_stopped:
            self.seq += 1
            visit.left_seq, visit.left_turn, visit.outcome = self.seq, self.turn, outcome

    def _action(self, phase: str, topic: str, action: str, skill: str | None) -> None:
        kind = action.rpartition("_")[0]
        skipped = self.traffic.chance(0.1)
        visit = self.model.add(
            "action_visits", action_id=action, action_type=kind, skill=skill, interrupt=None, detector=None, rounds=0,
            **self._entered(("action", phase, topic, action, skill), phase, topic, skipped),
        )  # fmt: skip
        if skipped:
            return
        if skill is None and self.traffic.chance(0.1):
            self._notice(action)
        if kind == "call":
            self._action(phase, topic, "ask_1", "breathe")
        for number in range(1, self.dice.choice([1, 1, 1, 2, 3]) + 1 if kind in QUESTIONS else 0):
            visit.rounds += self._wait(phase, topic, action, kind, number)
            if self.is_stopped:
                self.stands = (phase, topic, action)
                return
        if kind in QUESTIONS and self.traffic.chance(0.8):
            self._write(phase, topic, action)
        self._leave(visit, "done")

    def _wait(self, phase: str, topic: str, action: str, kind: str, number: int) -> bool:
        asked, turn = self.now, self.turn
        answered = not self.traffic.chance(0.06)
        self.is_stopped = not answered
        if answered:
            self.now += timedelta(seconds=self.dice.lognormvariate(4, 1))
            self._turn()
        self.model.add(
            "waits", **self.of, turn=turn, answered_turn=self.turn if answered else None, phase_id=phase,
            topic_id=topic, action_id=action, action_type=kind, kind="choice" if kind == "choose" else "text",
            round=number, asked_at=asked, seconds=(self.now - asked).total_seconds() if answered else None,
            outcome="answered" if answered else self.dice.choice(["open", "ended"]),
        )  # fmt: skip
        return answered

    def _write(self, phase: str, topic: str, action: str) -> None:
        self.seq += 1
        self.model.add(
            "variable_history", **self.of, turn=self.turn, seq=self.seq, written_at=self.now,
            scope=self.dice.choice(["session", "topic"]), phase_id=phase, topic_id=topic,
            name=self.dice.choice(["name", "mood"]), type=self.dice.choice(["text", "text", "null"]),
            new_text=self.dice.choice(["low", "high"]), source=self.dice.choice(["user", "model", "script"]),
            action_id=action, is_pii=False,
        )  # fmt: skip

    def _turn(self) -> None:
        """A turn, with a reply to what was said in it."""
        self.turn += self.heard > 0 or self.seq > 0
        self.heard += self.turn > 0
        self.model.add(
            "turns", **self.of, turn=self.turn, started_at=self.now, finished_at=self.now, messages=2, writes=0,
            events=3, status="active", execution_status="", digest="", seconds=0.0,
        )  # fmt: skip
        for role in ("user", "assistant") if self.turn else ("assistant",):
            words = " ".join(self.dice.choices(["Garden", "river", "Fluß", "睡眠", "焦虑.*", "a+b"], k=3))
            self.model.add(
                "messages", **self.of, turn=self.turn, seq=self.turn * 2 + (role == "assistant"), message_id="",
                role=role, content=words, is_taken_back=self.traffic.chance(0.1), created_at=self.now,
            )  # fmt: skip
        for number in range(1, self.dice.randrange(3) + 1):
            self._call(number)

    def _call(self, number: int) -> None:
        dice = self.dice
        done = dice.choices(["done", "failed", "in_doubt"], [8, 1, 1])[0]
        self.model.add(
            "llm_calls", **self.of, turn=self.turn, number=number, call_id="", purpose=dice.choice(["ask", "say"]),
            model=dice.choice(["small", "big"]), started_at=self.now, outcome=done,
            used=dice.choice([True, False, None]), input_tokens=dice.choice([None, 10, 250]),
            cached_tokens=dice.choice([None, 5]),
            output_tokens=dice.choice([None, 7]), counted=dice.choice([True, False, None]),
            cost=dice.choice([None, 0.25, 0.5]), latency_ms=dice.randrange(3000) if done == "done" else None,
            first_words_ms=dice.choice([None, dice.randrange(500)]), attempts=dice.choice([1, 1, 2]),
            degraded=dice.choice([None, "", "no JSON"]),
        )  # fmt: skip

    def _notice(self, action: str) -> None:
        self.seq += 1
        self.model.add(
            "detections", **self.of, turn=self.turn, seq=self.seq, detector=self.dice.choice(["risk", "anger"]),
            label=self.dice.choice(["yes", "some"]), score=self.dice.random(), severity=self.dice.random(),
            seen_by=self.dice.choice(["rule", "model"]), message=1, detected_at=self.now,
        )  # fmt: skip
        if not any(each.session_id == self.session_id for each in self.model.exposures):
            self.seq += 1
            experiment = self.dice.choice(list(ARMS))
            self.model.add(
                "exposures", **self.of, experiment=experiment, unit=ARMS[experiment][0],
                arm=self.dice.choice(["a", "b", "c"]), turn=self.turn, seq=self.seq, action_id=action,
                exposed_at=self.now,
            )  # fmt: skip
