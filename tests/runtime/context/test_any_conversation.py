"""Whatever is appended, resized and fails in whatever order: no message is lost or summarized twice."""

import asyncio

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runtime.context.conversation import Conversation
from runtime.context.resize import newest_in
from runtime.context.selection import strategy_of
from runtime.state.events import Message
from runtime.state.ports import ModelFailed
from runtime.state.state import ContextMemory
from scripts.model.context_strategies import ContextSettings, Limit
from tests.support.effort import repeats

LIMITS = st.builds(Limit, chars=st.sampled_from([0, 30, 80, 300]), messages=st.sampled_from([0, 1, 2, 5]))
ROLES = st.sampled_from(["user", "assistant", "assistant", "tool", "system"])
LENGTHS = st.sampled_from([0, 3, 10, 40, 100])


class Conversations(RuleBasedStateMachine):
    """A conversation with a memo, as an application leads it."""

    @initialize(limit=LIMITS)
    def begin(self, limit):
        self.said = []
        self.summarized = []
        self.cursor = 0
        self.failing = False
        self.arriving = []
        self.made = Conversation(settings=ContextSettings(strategy="memo", limit=limit))
        self.made.set_memo_handler(self.remember)

    async def remember(self, memo, messages, attachments, settings):
        for role, length in self.arriving:
            self.append(role, length)
        self.arriving = []
        if self.failing:
            raise ModelFailed("the model is away")
        self.summarized += [message.number for message in messages]
        return {"last": messages[-1].number}

    @rule(role=ROLES, length=LENGTHS)
    def append(self, role, length):
        text = f"{len(self.said) + 1}".ljust(length, "x")
        self.said.append((role, text))
        self.made.append_message({"role": role, "content": text})

    @rule(force=st.sampled_from([False, False, "lite", "deep"]))
    def resize(self, force):
        self.made.resize(force)

    @rule(role=ROLES, length=LENGTHS)
    def something_arrives_in_the_next_call(self, role, length):
        self.arriving.append((role, length))

    @rule()
    def the_model_goes_or_comes_back(self):
        self.failing = not self.failing

    @rule()
    def restart(self):
        again = Conversation()
        again.load_json(self.made.to_json())
        again.set_memo_handler(self.remember)
        assert again.to_json() == self.made.to_json()
        self.made = again

    @invariant()
    def all_is_there_once_and_in_order(self):
        full, window = self.made.full_chat_history, self.made.current_chat_history
        assert [(each.role, each.content) for each in full] == self.said
        assert [each.number for each in full] == list(range(1, len(full) + 1))
        numbers = [each.number for each in window]
        assert numbers == sorted(set(numbers))
        assert newest_in(window) == len(full)
        assert self.made.turns == sum(role == "assistant" for role, _ in self.said)

    @invariant()
    def the_memo_was_made_with_each_message_once_up_to_its_cursor(self):
        cursor = self.made.memo_cursor
        assert cursor >= self.cursor
        self.cursor = cursor
        assert self.summarized == list(range(1, cursor + 1))
        shown = {each.number for each in self.made.current_chat_history}
        assert all(number in shown for number in range(cursor + 1, len(self.said) + 1))


class Strategies(RuleBasedStateMachine):
    """A strategy as sessions follow it, with a condenser that comes and goes."""

    @initialize(
        chosen=st.one_of(
            st.builds(ContextSettings, strategy=st.just("summary"), keep=st.integers(1, 5)),
            st.builds(ContextSettings, strategy=st.just("summary_buffer"), max_tokens=st.sampled_from([5, 40, 100])),
            st.builds(ContextSettings, strategy=st.sampled_from(["memo", "lite"]), limit=LIMITS),
        )
    )
    def begin(self, chosen):
        self.strategy = strategy_of(chosen, factories={})
        self.memory = ContextMemory()
        self.messages = []
        self.summarized = []
        self.failing = False

    async def condense(self, wish):
        if self.failing:
            raise ModelFailed("the model is away")
        self.summarized += [message.number for message in wish.messages]
        return "told" if wish.purpose == "summarise" else {"told": len(self.summarized)}

    @rule(roles=st.lists(st.tuples(ROLES, LENGTHS), min_size=1, max_size=6))
    def turn(self, roles):
        for role, length in roles:
            number = len(self.messages) + 1
            role = "user" if role == "system" else role
            self.messages.append(Message(number, "", role, "x" * length, ""))
        before = self.memory
        self.memory = asyncio.run(self.strategy.follow(tuple(self.messages), before, self.condense))
        for name in ("after", "summary_to", "memo_to", "seen", "turns"):
            assert getattr(self.memory, name) >= getattr(before, name)
        self.memory = msgspec.json.decode(msgspec.json.encode(self.memory), type=ContextMemory)

    @rule()
    def the_model_goes_or_comes_back(self):
        self.failing = not self.failing

    @invariant()
    def each_message_is_summarized_once(self):
        reported = max(self.memory.summary_to, self.memory.memo_to)
        assert self.summarized == list(range(1, reported + 1))

    @invariant()
    def shown_messages_are_the_end_and_others_are_summarized(self):
        shown = [each.number for each in self.strategy.view(self.messages, self.memory).messages]
        assert shown == list(range(len(self.messages) - len(shown) + 1, len(self.messages) + 1))
        assert bool(shown) == bool(self.messages)
        if self.memory.summary_to:
            assert shown[0] <= self.memory.summary_to + 1


BOUNDS = settings(max_examples=repeats(60), stateful_step_count=30, deadline=None)
Conversations.TestCase.settings = BOUNDS
Strategies.TestCase.settings = BOUNDS
TestConversations = Conversations.TestCase
TestStrategies = Strategies.TestCase
