"""Where a variable that is read may have no value: definite assignment along every path through a script.

Told by ``VARIABLE_MAYBE_UNSET``, once for each name in a topic or skill. Sound but for what authors cannot mean:

- a required question is taken to get its answer; running out of rounds is told at run time (`value_missing`). Where
  `on_fail: skip` says that it may stay open, or `required: false`, the variable may be unset after it;
- a `repeat` is taken to end because its `until` holds;
- a session or global variable that no action writes is taken to be handed in by the application, and what only a
  detector writes to be there;
- a variable that is kept up to date (`auto`) counts as there, and no interrupt or repair is taken to cut an action
  short (`then: skip` may leave a question open; that is told at run time, as when it is out of rounds);
- of what the actions of interrupts and detectors read, it is only told where nothing in their sight could have set it
  (`VARIABLE_NEVER_SET`, `VARIABLE_UNDECLARED`): they may come up anywhere;
- a form is taken to be filled in but for what says `required: false`; what it works out has no value where what that
  reads has none;
- what is taken out of a record or list, or comes of a filter, counts as there;
- a name in a comparison or condition (tested, not used) may be unset, as the language defines that; it is told only
  where a topic's or phase's variable cannot have a value on any path.
"""

import heapq

import msgspec

from scripts.analysis.deeds import (
    Run,
)
from scripts.analysis.known import ABSENT, VALUE, Known, Level
from scripts.analysis.layout import Layout, Node
from scripts.analysis.within import EMPTY, Finding, Within
from scripts.model import Skill
from scripts.targets import resolve_target
from scripts.variables import Declaration

VISITS_MAX = 30  # of one node; more would mean that the paths do not come to rest
PASSES_MAX = 12  # through one loop


def find_unset(layout: Layout) -> list[Finding]:
    """Every name read where it may have no value, once for each topic or skill, in the order met."""
    return _Paths(layout).run()


class _Paths(Within):
    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._entries: dict[Node, Known] = {}
        self._doubts: dict[Node, str] = {}  # when a node is come to on the first way to it
        self._exits: dict[str, Known] = {}  # of skills
        self._callers: dict[str, set[Node]] = {}
        self._queue: list[Node] = []
        self._visits: dict[Node, int] = {}

    def run(self) -> list[Finding]:
        self._arrive(self._layout.first, self._layout.at_start(), "")
        for node in self._layout.led_by_interrupts():
            known = self._entered(
                self._layout.at_start(), self._layout.phase(node).declare, Node(node.phase, node.topic)
            )
            self._arrive(node, self._entered(known, self._layout.topic(node).declare, node), "an interrupt leads here")
        self._drain()
        for node in self._layout.skills:
            if node not in self._entries:  # called by nobody
                self._arrive(node, self._begun(node, self._layout.at_start()), "")
                self._drain()
        return [finding for node in sorted(self._found) for finding in self._found[node].values()]

    def _drain(self) -> None:
        while self._queue:
            node = heapq.heappop(self._queue)
            self._visits[node] = self._visits.get(node, 0) + 1
            if self._visits[node] <= VISITS_MAX:
                self._node, self._sight, self._local = node, self._layout.sight(node), frozenset()
                self._found[node] = {}
                self._visit(node, self._entries[node].copy())

    def _arrive(self, node: Node, known: Known, doubt: str) -> None:
        """A way leads into a node."""
        if node in self._entries:
            before = self._entries[node]
            known = self._conditions.join(before, known, self._layout.sight(node), (self._doubts[node], doubt))
            if known.same(before):
                return
        self._doubts.setdefault(node, doubt)
        self._entries[node] = known
        if node not in self._queue:
            heapq.heappush(self._queue, node)

    # -- between topics and phases ------------------------------------------------------------------------------------

    def _visit(self, node: Node, known: Known) -> None:
        layout = self._layout
        if layout.is_end(node):
            return
        if (skill := layout.skill(node)) is not None:
            self._skill(skill, known)
        elif layout.is_body(node):
            after = self._list(layout.topic(node).actions, known)
            if after is not None:
                self._arrive(layout.after(node), self._leave_topic(after), "")
        else:
            self._head(node, known)

    def _head(self, node: Node, known: Known) -> None:
        """A phase or topic that is entered if its `when` holds."""
        phase = self._layout.phase(node)
        owner = phase if self._layout.is_phase(node) else self._layout.topic(node)
        on, off = self._decide(owner.when, known)
        if on is not None:
            self._arrive(self._layout.inside(node), self._entered(on, owner.declare, self._layout.inside(node)), "")
        if off is not None:
            kind = "phase" if self._layout.is_phase(node) else "topic"
            following = self._layout.past(node)
            self._arrive(following, self._left_phase(off, following), f"{kind} `{owner.id}` is skipped")

    def _entered(self, known: Known, declared: tuple[Declaration, ...], node: Node) -> Known:
        level = Level.TOPIC if self._layout.is_body(node) else Level.PHASE
        for each in declared:
            self._conditions.forget(known, each.var)
            if each.auto:
                known.set((level, each.var), VALUE)
            elif each.value is not None:
                known.set((level, each.var), VALUE)
                self._constant(known, each.var, each.value, self._layout.sight(node))
        return known

    def _leave_topic(self, known: Known) -> Known:
        self._drop(known, Level.TOPIC)
        return self._left_phase(known, self._layout.after(self._node))

    def _left_phase(self, known: Known, following: Node) -> Known:
        if following.phase != self._node.phase:
            self._drop(known, Level.PHASE)
        return known

    def _drop(self, known: Known, level: Level) -> None:
        for name in self._conditions.names(known):
            if self._sight.key(name)[0] <= level:
                self._conditions.forget(known, name)
        known.drop(level)

    def _jump(self, target: str, known: Known) -> None:
        here = self._node
        found = resolve_target(self._layout.script, target, self._layout.phase(here).id)
        if found is None:
            return
        node = self._layout.body(found)
        known = known.copy()
        self._drop(known, Level.TOPIC)
        if node.phase != here.phase:
            self._drop(known, Level.PHASE)
            phase = self._layout.phase(node)
            known = self._entered(known, phase.declare, msgspec.structs.replace(node, step=0))
        known = self._entered(known, self._layout.topic(node).declare, node)
        self._arrive(node, known, f"the conversation comes from {self._layout.topic(here).id} by `goto`")

    # -- skills -------------------------------------------------------------------------------------------------------

    def _begun(self, node: Node, caller: Known) -> Known:
        """What a skill knows when it begins: the global variables, its parameters, what it declares."""
        skill = self._layout.skill(node)
        known = Known()
        for key, mask in caller.masks.items():
            if key[0] is Level.GLOBAL:
                known.set(key, mask, caller.doubts.get(key, ""))
        if skill is not None:
            for each in (*skill.params, *skill.declare):
                if each.value is not None or (each in skill.params and getattr(each, "required", False)):
                    known.set((Level.TOPIC, each.var), VALUE)
                elif each in skill.params:
                    known.set((Level.TOPIC, each.var), ABSENT | VALUE, "the call does not give it")
        return known

    def _skill(self, skill: Skill, known: Known) -> None:
        after = self._list(skill.actions, known)
        if after is None:
            return
        for name in skill.returns:
            mask = self._sight.mask(after, name)
            if not mask & VALUE:
                self._report(name, skill.mark("returns"), "", is_never=True)
        before = self._exits.get(skill.id)
        if before is not None:
            after = self._conditions.join(before, after, self._sight)
        self._exits[skill.id] = after
        if before is None or not after.same(before):
            for caller in self._callers.get(skill.id, set()):
                if caller not in self._queue:
                    heapq.heappush(self._queue, caller)

    def _call(self, run: Run, known: Known) -> Known | None:
        node = self._layout.skill_node(run.call.skill)
        skill = self._layout.skill(node) if node is not None else None
        if node is None or skill is None or not skill.actions:
            return known
        self._callers.setdefault(skill.id, set()).add(self._node)
        self._arrive(node, self._begun(node, known), "")
        after = self._exits.get(skill.id)
        done = self._returned(run, skill, known.copy(), after) if after is not None else None
        if run.call.loop is None:
            return done
        return self._either(done, known, EMPTY)

    def _returned(self, run: Run, skill: Skill, known: Known, after: Known) -> Known:
        for name in self._layout.globals_written(skill.id):
            mask = after.masks.get((Level.GLOBAL, name), ABSENT)
            if mask != VALUE:
                mask |= known.masks.get((Level.GLOBAL, name), ABSENT)
            self._conditions.forget(known, name)
            known.set((Level.GLOBAL, name), mask, after.doubts.get((Level.GLOBAL, name), ""))
        for variable in run.call.assigned:
            name = run.call.output[variable]
            mask = after.masks.get((Level.TOPIC, name), ABSENT)
            key = self._sight.key(variable)
            if mask & ABSENT:
                mask = (mask & ~ABSENT) | known.masks.get(key, ABSENT)
            doubt = after.doubts.get((Level.TOPIC, name), "")
            self._conditions.forget(known, variable)
            known.set(key, mask, f"the skill `{skill.id}` returns nothing for it" + (f": {doubt}" if doubt else ""))
        return known
