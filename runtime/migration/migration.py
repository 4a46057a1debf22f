"""Migration of a session to another version of its script, by ids: unchanged, renamed and removed places.

`plan` is pure and returns the result of a migration; the engine applies it as a turn (`MigrationInput`).
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from runtime.migration.variables import Cells, MigrationBlocked, account_of, differences, new_path
from runtime.state.events import Body, Migrated
from runtime.state.program import PlaceLost, Program
from runtime.state.scopes import Scopes
from runtime.state.state import Frame, Progress, State, Wait, copy_of
from runtime.timers.timers import pending_timers
from scripts.expressions.values import DeclaredType
from scripts.model.actions import Action, AiAsk, Ask, Call, Choose, Foreach, Form, action_type
from scripts.model.base import without_places
from scripts.model.script import DETECTORS, INTERRUPTS, Path, as_output
from scripts.model.variables import Output, constant
from scripts.versions.rename_map import Renames, format_path, paths_of

Verdict: TypeAlias = Literal["safe", "mapped", "restart_topic", "blocked", "ended", "current"]
VERDICTS: tuple[Verdict, ...] = ("safe", "mapped", "restart_topic", "blocked", "ended", "current")
MOVING: tuple[Verdict, ...] = ("safe", "mapped", "restart_topic")

_TAKEN_OVER = "a person has taken it over", "give it back"
_T = TypeVar("_T")


class Plan(Struct, frozen=True):
    """The result of a migration. `state` is the session's new state; the original state if it does not migrate."""

    verdict: Verdict
    why: tuple[str, ...]
    state: State
    account: tuple[Body, ...] = ()
    restart: str = ""  # the topic, in the phase of `state`, that begins again
    place: str = ""  # the session's new position, as phase/topic/action


class _Misfit(Exception):
    """A place that the new version does not have in the same form; the message says what is missing."""


def place_of(state: State) -> str:
    """Return a session's position, as phase/topic/action."""
    return format_path((state.phase, state.topic, state.frames[-1].action if state.frames else ""))


def plan(old: Program, new: Program, state: State, now: datetime, default_zone: str = "UTC") -> Plan:
    """Return the result of migrating a session from one version to another. `state` is not changed.

    `state` should contain the user's current global variables; `default_zone` is the time zone of sessions without one.
    """
    if state.status == "completed":
        return Plan("ended", ("the conversation is over",), state, place=place_of(state))
    try:
        return _Move(old, new, state, now, default_zone).plan()
    except MigrationBlocked as error:
        return Plan("blocked", (str(error),), state, place=place_of(state))


def undo(now: State, before: State) -> Plan:
    """Return the reversal of a migration: the earlier state, with the current numbers of turn, event and message."""
    numbers = {"turn": now.turn, "event_seq": now.event_seq, "message_seq": now.message_seq}
    state = msgspec.structs.replace(copy_of(before), **numbers)
    why = ("back to the version before",)
    account = (Migrated("undone", why, place_of(now), place_of(before)), *account_of(now, state, "migrated"))
    return Plan("safe", why, state, account, place=place_of(before))


class _Move:
    """The migration of one session."""

    def __init__(self, old: Program, new: Program, state: State, now: datetime, default_zone: str) -> None:
        self._old = old
        self._new = new
        self._before = state
        self._state = copy_of(state)
        self._renames = Renames(old.script, new.script)
        self._cells = Cells(old, new, self._renames, now)
        self._default_zone = default_zone
        self._why: list[str] = []
        self._dropped: set[tuple[int, str]] = set()  # by progress: values that no question accepts any more
        self._renamed = False

    def _moments(self) -> Iterator[str]:
        """Yield the moments of waits, reminders and expiry that come earlier or later than before."""
        before = pending_timers(self._old, self._before, self._default_zone)
        after = pending_timers(self._new, self._state, self._default_zone)
        for kind, depth in dict.fromkeys((each.kind, each.depth) for each in after):
            were = [each.due for each in before if (each.kind, each.depth) == (kind, depth)]
            now = [each for each in after if (each.kind, each.depth) == (kind, depth)]
            gone = [due for due in were if all(due != each.due for each in now)]
            for earlier, each in zip(gone, [each for each in now if each.due not in were], strict=False):
                yield f"{kind} of {each.action}: {earlier:%Y-%m-%d %H:%M} → {each.due:%Y-%m-%d %H:%M} UTC"

    def plan(self) -> Plan:
        """Return the result of the migration. Raises MigrationBlocked."""
        before, state = self._before, self._state
        restart = self._settle() if before.topic else ""
        state.ai_role, state.human_role = self._role(state.ai_role), self._role(state.human_role)
        if before.begun:
            self._cells.move(before, state, with_topic=bool(before.topic) and not restart)
        else:
            self._cells.start(state)
        state.visits = self._visits()
        exposed = ((self._renames.variable(name), arm) for name, arm in before.exposed.items())
        state.exposed = {name: arm for name, arm in exposed if name is not None and name in self._new.experiments}
        watches = ((self._renames.path((DETECTORS, name)), watch) for name, watch in before.watches.items())
        state.watches = {path[1]: each for path, each in watches if path and path[1] in self._new.vocabularies}
        state.taken, state.entered = self._by_place(before.taken), self._by_place(before.entered)
        state.awake = self._by_place(before.awake)
        verdict: Verdict = "mapped" if self._renamed or self._cells.renamed else "safe"
        new_place = place_of(state)
        if restart and (before.status == "paused" or before.operator):
            why_not, cure = ("it is paused", "resume it") if before.status == "paused" else _TAKEN_OVER
            topic = format_path((state.phase, restart))
            raise MigrationBlocked(f"{why_not}, and the topic {topic} must begin again: {cure}")
        if restart:
            verdict, new_place = "restart_topic", format_path((state.phase, restart))
            state.frames, state.topic = copy_of(before).frames, before.topic  # the engine leaves these first
            state.wait = None
        else:
            self._why += self._moments()
        why = tuple(dict.fromkeys([*self._why, *self._cells.notes]))
        moved = Migrated(verdict, why, place_of(before), new_place)
        account = differences(before, state, topic_ends=bool(restart))
        return Plan(verdict, why, state, (moved, *account), restart, new_place)

    # -- position -----------------------------------------------------------------------------------------------

    def _settle(self) -> str:
        """Map the position. Returns the topic that must begin again, or "". Raises MigrationBlocked."""
        state, old_home = self._state, (self._before.phase, self._before.topic)
        home = self._renames.path(old_home)
        if home is None or (home[0], home[1]) not in self._new.topics:
            phase = self._renames.path((state.phase,))
            there = phase is not None and phase[0] in self._new.phases
            what = f"the topic {format_path(old_home)}" if there else f"the phase {state.phase}"
            raise MigrationBlocked(f"{what} is gone, and no rename maps it to another one")
        self._note(old_home, home)
        state.phase, state.topic = home
        try:
            self._frames(old_home, home)
            if self._before.wait is not None and self._before.frames:
                state.wait = self._waiting(len(self._before.frames), self._before.wait, self._before.progress)
        except _Misfit as misfit:
            self._why.append(str(misfit))
            return state.topic
        state.progress = self._values(self._before.progress)
        return ""

    def _role(self, role: str) -> str:
        """Return a role of the last scene, unless it was removed from the script."""
        return "" if role in self._old.roles and role not in self._new.roles else role

    def _note(self, was: Path, now: Path) -> None:
        if was != now:
            self._renamed = True
            self._why.append(f"{format_path(was).removeprefix(':')} is {format_path(now).removeprefix(':')} now")

    def _frames(self, old_home: Path, home: Path) -> None:
        """Map the frames, from the outermost to the innermost. Raises _Misfit, MigrationBlocked."""
        around = ""
        for index, frame in enumerate(self._before.frames):
            held = frame.held
            if held is not None:  # the action that an interrupt suspended waits as the session itself does
                held = msgspec.structs.replace(held, wait=self._waiting(index, held.wait, held.progress))
                frame = msgspec.structs.replace(frame, held=held)
            block = self._action(old_home, home, frame.block) if frame.block else None
            if block is not None and block.id != around:
                raise _Misfit(f"{format_path((*old_home, frame.block))} no longer contains the current action")
            if frame.home is not None:
                old_home, home = frame.home, self._path_of_call(frame, block)
            moved = self._frame(frame, block, old_home, home)
            self._state.frames[index] = moved
            around = moved.action

    def _frame(self, frame: Frame, block: Action | None, old_home: Path, home: Path) -> Frame:
        """Return one frame, mapped to the new version. Raises _Misfit, MigrationBlocked.

        This is the only function that maps a frame: fields that it does not name do not change.
        """
        action = self._action(old_home, home, frame.action)
        phase, topic = home
        inner = "" if frame.home is not None or block is None else block.id
        if all(each.id != action.id for each in self._new.actions((phase, topic, inner, frame.arm))):
            raise _Misfit(f"{format_path((*home, action.id))} stands in another place of its topic now")
        held = frame.held
        if held is not None:
            values = self._values(held.progress)
            held = msgspec.structs.replace(held, progress=values)
        return msgspec.structs.replace(
            frame,
            action=action.id,
            block=block.id if block is not None else "",
            item_name=_item_name(block, frame),
            skill=topic if frame.skill else "",
            interrupt=topic if frame.interrupt else "",
            cells=frame.cells if frame.home is None else self._cells.of_call(frame.cells, old_home, home),
            held=held,
        )

    def _action(self, old_home: Path, home: Path, action: str) -> Action:
        """Return an action of the old version, as the new version has it. Raises _Misfit."""
        was = (*old_home, action)
        now = new_path(self._renames, was)
        if now is None or now[:2] != home:
            raise _Misfit(f"the action {format_path(was)} is not in {format_path(home)} any more")
        try:
            before = self._old.action(old_home[0], old_home[1], action)
            after = self._new.action(home[0], home[1], now[2])
        except PlaceLost:
            raise _Misfit(f"the action {format_path(was)} is gone") from None
        if type(before) is not type(after):
            raise _Misfit(f"{format_path(now)} was `{action_type(before)}` and is `{action_type(after)}`")
        if now[2] != action:
            self._note(was, now)
        return after

    def _path_of_call(self, frame: Frame, block: Action | None) -> Path:
        """Return the skill or interrupt of a frame, as the new version has it. Raises _Misfit."""
        was: Path = (INTERRUPTS, frame.interrupt) if frame.interrupt else ("", frame.skill)
        path = new_path(self._renames, was)
        there = self._new.interrupts.keys() if frame.interrupt else self._new.skills.keys()
        if path is None or path[1] not in there:
            raise _Misfit(f"the {'interrupt' if frame.interrupt else 'skill'} {was[1]} is gone")
        if isinstance(block, Call) and (block.skill != path[1] or (block.loop is None) is not (frame.items is None)):
            raise _Misfit(f"{block.id} calls {block.skill} in another way than before")
        self._note(was, path)
        return path

    # -- wait ---------------------------------------------------------------------------------------------------

    def _waiting(self, depth: int, wait: Wait, progress: Progress | None) -> Wait:
        """Return the wait of the innermost action of the first `depth` frames, if the answer is still valid.

        Raises _Misfit. A form that has changed loses its rendering; the engine renders it again.
        """
        before, after = self._within(self._before, depth), self._within(self._state, depth)
        try:
            was = self._old.action(*before.home(), before.frames[-1].action)
            now = self._new.action(*after.home(), after.frames[-1].action)
        except PlaceLost as lost:
            raise _Misfit(str(lost)) from lost
        offered: set[str] | None = None
        if isinstance(was, Ask | AiAsk) and isinstance(now, Ask | AiAsk):
            answers = _accepted_answers(self._new, after, now)
            self._check_outputs(_accepted_answers(self._old, before, was), answers, now.id, progress)
            lists = [each.choices for each in answers.values()]
            if None not in lists:
                offered = {key for keys in lists for key in keys or ()} if len(lists) == 1 else set()
        if isinstance(now, Choose):
            offered = {choice.key for choice in now.fixed} if now.is_fixed else None
        gone = [each.key for each in wait.choices if offered is not None and each.key not in offered]
        if gone and not (progress is not None and progress.is_confirmation):  # which offers yes and no
            raise _Misfit(f"{now.id} no longer offers {', '.join(gone)}")
        if isinstance(was, Form) and isinstance(now, Form) and self._is_another_form(was, now, progress):
            return Wait("form")
        return wait

    def _is_another_form(self, was: Form, now: Form, progress: Progress | None) -> bool:
        """Return whether the awaited form has changed. Raises _Misfit."""
        if was.sheet != now.sheet:
            raise _Misfit(f"{now.id} showed the form {was.sheet} and shows {now.sheet}")
        before, after = self._old.forms[was.sheet], self._new.forms[now.sheet]
        if without_places(before) == without_places(after):
            return False
        later = {each.name: each for each in after.fields if each.computed is None}
        for each in before.fields:
            last = self._renames.variable(each.name)
            field = later.get(last or "")
            if field is None and progress is not None:
                self._dropped.add((id(progress), each.name))
            if field is not None and last is not None and last != each.name:
                self._renamed = True
                self._why.append(f"the field `{each.name}` is `{last}` now")
            if field is None or progress is None or each.name not in progress.values:
                continue
            columns = {column.name for column in field.columns}
            takes_all = _includes(constant(field.choice_list), constant(each.choice_list))
            takes_all = takes_all and {column.name for column in each.columns} <= columns
            if as_output(field).kind != as_output(each).kind or not takes_all:
                raise _Misfit(f"{now.id} takes `{last}` in another way than before")
        self._why.append(f"the form {now.sheet} is rendered again")
        return True

    @staticmethod
    def _within(state: State, depth: int) -> State:
        """Return the session as the innermost action of the first `depth` frames sees it."""
        return msgspec.structs.replace(state, frames=state.frames[:depth])

    def _check_outputs(
        self,
        were: Mapping[str, "_AcceptedAnswer"],
        now: Mapping[str, "_AcceptedAnswer"],
        action: str,
        progress: Progress | None,
    ) -> None:
        """Check that values given already are still accepted, in the same type. Raises _Misfit."""
        for name, output in were.items():
            last = self._renames.variable(name)
            later = now.get(last) if last is not None else None
            if later is None:
                if progress is not None:
                    self._dropped.add((id(progress), name))
            elif later.kind != output.kind or not _includes(later.choices, output.choices):
                raise _Misfit(f"{action} takes `{last}` as {later.kind or 'anything'} in another way than before")

    def _values(self, progress: Progress | None) -> Progress | None:
        """Return an action's values under their new names, without those that it does not accept any more."""
        if progress is None:
            return None
        accepted = [each for each in (*progress.values, *progress.errors) if (id(progress), each) not in self._dropped]
        remaining = {name: last for name in accepted if (last := self._renames.variable(name)) is not None}
        values = {remaining[name]: value for name, value in progress.values.items() if name in remaining}
        errors = {remaining[name]: error for name, error in progress.errors.items() if name in remaining}
        return msgspec.structs.replace(progress, values=values, errors=errors)

    def _by_place(self, counted: Mapping[str, _T]) -> dict[str, _T]:
        """Return what is stored by phase, topic or action (`phase/topic`) under the new ids."""
        paths = ((new_path(self._renames, _path_of(place)), each) for place, each in counted.items())
        return {"/".join(path): each for path, each in paths if path is not None}

    def _visits(self) -> dict[str, int]:
        """Return how often actions were visited, by new id; if several are merged into one id, the maximum."""
        named: dict[str, set[str]] = {}
        for path in paths_of(self._old.script):
            last = self._renames.path(path) if len(path) == 3 else None
            if last is not None:
                named.setdefault(path[2], set()).add(last[-1])
        found: dict[str, int] = {}
        for name, count in self._before.visits.items():
            for last_name in sorted(named.get(name, {name})):
                found[last_name] = max(found.get(last_name, 0), count)
        return found


def _path_of(place: str) -> Path:
    parts = place.split("/")
    if parts[0] == INTERRUPTS and parts[1].startswith(":"):
        # the id of a topic that answers during a `wait` has a slash
        return INTERRUPTS, "/".join(parts[1:3]), *parts[3:]
    return tuple(parts)


class _AcceptedAnswer(Struct, frozen=True):
    """The type and choices of a question's answer for a variable."""

    kind: DeclaredType | None
    choices: tuple[str, ...] | None  # None: computed when the question is put


def _includes(now: tuple[str, ...] | None, before: tuple[str, ...] | None) -> bool:
    """Return whether choices include those of before; computed ones are compared when the answer is read."""
    return now is before if now is None or before is None else set(before) <= set(now)


def _accepted_answers(program: Program, state: State, action: Ask | AiAsk) -> dict[str, _AcceptedAnswer]:
    """Return the accepted answers at the session's position, by variable, with their own or declared types."""
    scopes = Scopes(program, state)
    found = {}
    for item in action.outputs:
        for output in item.questions:
            declared = scopes.declaration(scopes.target(output.get), output.get) if output is item else None
            typed = output if output.kind is not None or declared is None else declared
            choices = constant(typed.choice_list) if isinstance(typed, Output) else typed.choices
            found[output.get] = _AcceptedAnswer(typed.kind, choices)
    return found


def _item_name(block: Action | None, frame: Frame) -> str:
    """Return the current name of a loop's item."""
    loop = block.loop if isinstance(block, Foreach | Call) else None
    return loop.name if loop is not None and frame.items is not None else frame.item_name
