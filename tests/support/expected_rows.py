"""The rows of the model as plain Python computes them from the turns of a database, one event after the other."""

import json
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Protocol

import duckdb


class Model(Protocol):
    """Lists of rows by table."""

    as_of: datetime

    def add(self, table: str, **row: Any) -> SimpleNamespace: ...


def rows_of(cursor: duckdb.DuckDBPyConnection, sql: str) -> list[SimpleNamespace]:
    found = cursor.execute(sql)
    names = [name for name, *_ in found.description or ()]
    return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in found.fetchall()]


def fill(model: Model, store: duckdb.DuckDBPyConnection, about_scripts: duckdb.DuckDBPyConnection) -> None:
    """Fill the tables; those of scripts come from where somebody read them."""
    for table in ("scripts", "script_actions", "script_arms"):
        for row in rows_of(about_scripts, f"FROM {table}"):
            model.add(table, **vars(row))
    model.as_of = rows_of(about_scripts, "FROM about")[0].as_of
    for start in rows_of(store, "FROM session_starts"):
        turns = rows_of(store, f"FROM turns WHERE session_id = '{start.session_id}' ORDER BY turn")
        Reading(model, start, turns).read()


class Reading:
    """One session being read."""

    def __init__(self, model: Model, start: SimpleNamespace, turns: list[SimpleNamespace]) -> None:
        self.model, self.start, self.turns = model, start, turns
        self.of = {
            "session_id": start.session_id,
            "user_id": start.user_id,
            "script_id": start.script_id,
            "script_version": start.script_version,
            "digest": start.digest,
        }
        self.turn = turns[0]
        self.seq = 0
        self.ended_by: str | None = None
        self.outcome: str | None = None
        self.scopes: dict[str, SimpleNamespace] = {}
        self.visits: list[SimpleNamespace] = []
        self.open: list[SimpleNamespace] = []
        self.counts: dict[Any, int] = {}
        self.waits: list[SimpleNamespace] = []

    def read(self) -> None:
        for turn in self.turns:
            self.turn = turn
            self._turn()
        self._reply_to_waits()
        last, messages = self.turns[-1], [each for turn in self.turns for each in json.loads(turn.messages)]
        metadata = json.loads(self.start.metadata)
        going = [turn.turn for turn in self.turns if turn.status != "completed"]
        ending = self.turns[going[-1] + 1 if going else 0] if last.status == "completed" else None
        self.model.add(
            "sessions", **self.of, first_version=self.start.script_version,
            forked_from=metadata.get("forkedFrom", {}).get("sessionId"), created_at=self.start.created_at,
            updated_at=last.finished_at, completed_at=None if ending is None else ending.finished_at,
            ended_by=self.ended_by if last.status == "completed" else None,
            outcome=self.outcome if last.status == "completed" else None,
            status=last.status, turn=last.turn, phase_id=last.phase_id, topic_id=last.topic_id,
            action_id=last.action_id, user_messages=sum(each["role"] == "user" for each in messages),
        )  # fmt: skip

    def _turn(self) -> None:
        turn, writes = self.turn, json.loads(self.turn.variables)
        events, messages = json.loads(turn.events), json.loads(turn.messages)
        for event in events:
            self.seq = event["seq"]
            self._event(event["kind"], event["data"], writes)
        if any(each["data"].get("what") == "rewind" for each in events) and turn.action_id:
            self._put_back()
        self.model.add(
            "turns", **self.of, turn=turn.turn, started_at=turn.started_at, finished_at=turn.finished_at,
            messages=len(messages), status=turn.status,
        )  # fmt: skip
        for each in messages:
            self.model.add(
                "messages", **self.of, turn=turn.turn, seq=each["seq"], role=each["role"], content=each["content"],
                created_at=datetime.fromisoformat(each["created_at"]),
                is_taken_back=any(a <= each["seq"] <= b for a, b in json.loads(self.turns[-1].state).get("gaps") or []),
            )  # fmt: skip

    def _event(self, kind: str, data: dict[str, Any], writes: list[dict[str, Any]]) -> None:
        if kind in {"scope_left", "ended"} or (kind == "intervention" and data["what"] == "rewind"):
            for visit in self.open:
                self._end(visit, "cut_short")
            self.open = []
        match kind:
            case "ended":
                self.ended_by = data["by"]
                self.outcome = data.get("outcome")
            case "scope_entered" | "scope_skipped":
                self._enter_scope(data["scope"], data["id"], skipped=kind == "scope_skipped")
            case "scope_left":
                self._leave_scope(data["scope"])
            case "action_entered" | "action_skipped":
                self._enter(data, skipped=kind == "action_skipped")
            case "action_left":
                self._leave(data)
            case "wait":
                self._wait(data["action_id"], data["wait"]["kind"])
            case "variable":
                self._write(writes[data["variable"]])
            case "detected":
                self.model.add(
                    "detections", **self.of, turn=self.turn.turn, seq=self.seq, detector=data["detector"],
                    label=data["label"], score=data["score"], severity=data["severity"], seen_by=data["by"],
                )  # fmt: skip

    def _begun(self, key: tuple[Any, ...], *, skipped: bool) -> dict[str, Any]:
        if not skipped:
            self.counts[key] = self.counts.get(key, 0) + 1
        return self.of | {
            "seq": self.seq, "entered_turn": self.turn.turn, "entered_at": self.turn.finished_at,
            "visit": 0 if skipped else self.counts[key],
            "left_seq": self.seq if skipped else None, "left_turn": self.turn.turn if skipped else None,
            "outcome": "skipped" if skipped else "open",
        }  # fmt: skip

    def _end(self, visit: SimpleNamespace, outcome: str) -> None:
        visit.left_seq, visit.left_turn, visit.outcome = self.seq, self.turn.turn, outcome

    def _enter_scope(self, scope: str, name: str, *, skipped: bool) -> None:
        phase = name if scope == "phase" else self.scopes["phase"].phase_id
        topic = name if scope == "topic" else None
        begun = self._begun((scope, phase, topic), skipped=skipped)
        row = self.model.add("scope_visits", scope=scope, phase_id=phase, topic_id=topic, **begun)
        if not skipped:
            self.scopes[scope] = row

    def _leave_scope(self, scope: str) -> None:
        self._end(self.scopes[scope], "left")

    def _enter(self, data: dict[str, Any], *, skipped: bool) -> None:
        self.open = [each for each in self.open if not self._is_again(each, data)]
        within = {name: data.get(name) or None for name in ("skill", "interrupt", "detector")}
        place = (self.scopes["phase"].phase_id, self.scopes["topic"].topic_id, data["action_id"])
        row = self.model.add(
            "action_visits", phase_id=place[0], topic_id=place[1], action_id=place[2], action_type=data["action_type"],
            rounds=0, **within, **self._begun((*place, *within.values()), skipped=skipped),
        )  # fmt: skip
        if not skipped:
            self.open.append(row)
            self.visits.append(row)

    def _is_again(self, visit: SimpleNamespace, data: dict[str, Any]) -> bool:
        same = visit.action_id == data["action_id"] and visit.skill == (data.get("skill") or None)
        same = same and visit.interrupt == (data.get("interrupt") or None)
        if same and visit.detector == (data.get("detector") or None):
            self._end(visit, "cut_short")
            return True
        return False

    def _leave(self, data: dict[str, Any]) -> None:
        for visit in self.open:
            names = ("skill", "interrupt", "detector")
            if visit.action_id == data["action_id"] and all(getattr(visit, n) == (data.get(n) or None) for n in names):
                self._end(visit, "done")
                visit.rounds = data["rounds"]
                self.open.remove(visit)
                return

    def _put_back(self) -> None:
        """Begin the action again at which a rewind or a migration puts the session."""
        earlier = [each for each in self.visits if each.action_id == self.turn.action_id]
        within = {name: getattr(earlier[-1], name) if earlier else None for name in ("skill", "interrupt", "detector")}
        self._enter({"action_id": self.turn.action_id, "action_type": self.turn.action_type, **within}, skipped=False)
        if self.turn.wait_kind:
            self._wait(self.turn.action_id, self.turn.wait_kind)

    def _wait(self, action: str, kind: str) -> None:
        visit = next((each for each in reversed(self.visits) if each.action_id == action), None)
        wait = self.model.add(
            "waits", **self.of, turn=self.turn.turn, phase_id=self.scopes["phase"].phase_id, kind=kind, visit=visit,
            topic_id=self.scopes["topic"].topic_id, action_id=action, action_type=visit and visit.action_type,
            round=1 + sum(each.visit is visit for each in self.waits), asked_at=self.turn.finished_at,
        )  # fmt: skip
        self.waits.append(wait)

    def _reply_to_waits(self) -> None:
        replies = [turn for turn in self.turns if any(each["role"] == "user" for each in json.loads(turn.messages))]
        for wait, later in zip(self.waits, [*self.waits[1:], None], strict=True):
            reply = next((turn for turn in replies if turn.turn > wait.turn), None)
            if reply is not None and (later is None or reply.turn <= later.turn):
                wait.outcome, wait.seconds = "answered", (reply.started_at - wait.asked_at).total_seconds()
                if wait.visit is not None and wait.visit.outcome != "done":
                    wait.visit.rounds += 1
            else:
                goes_on = later is None and self.turns[-1].status in {"active", "paused"}
                wait.outcome, wait.seconds = "open" if goes_on else "ended", None

    def _write(self, write: dict[str, Any]) -> None:
        self.model.add(
            "variable_history", **self.of, turn=self.turn.turn, seq=self.seq, scope=write["scope"], name=write["name"],
            type=write["type"], action_id=write.get("action_id"), source=write["source"],
        )  # fmt: skip
