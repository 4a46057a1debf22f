"""A search finds the messages in which all words occur, and no others, whatever they are written with."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.interface.list_rows import SearchFilter
from store.interface.rows import NO_TURN
from store.open_store import open_store
from store.sql import message_search
from store.store import Store
from tests.support.effort import repeats
from tests.support.store_rows import MOMENT, Conversation


@pytest.fixture(autouse=True, scope="module")
def small_windows() -> Iterator[None]:
    """Let searches in PostgreSQL go beyond the newest turns."""
    with pytest.MonkeyPatch.context() as searching:
        searching.setattr("store.postgres.search.WINDOWS", (3, 7, None))
        yield


def fold(text: str) -> str:
    """Return a text without differences of case, character by character."""
    return "".join(next((one for one in (each.casefold(), each.lower()) if len(one) == 1), each) for each in text)


async def write_turns(store, *turns, **fields):
    """Return a session with these turns, each a list of (role, content)."""
    one = Conversation(**fields)
    count = 0
    for number, said in enumerate(turns):
        turn = one.next_turn()
        messages = [
            msgspec.structs.replace(turn.messages[0], seq=count + place, role=role, content=content)
            for place, (role, content) in enumerate(said, start=1)
        ]
        count += len(messages)
        turn = msgspec.structs.replace(turn, messages=messages, finished_at=MOMENT + timedelta(minutes=number))
        await store.turns.commit(turn, number - 1 if number else NO_TURN, None if number else one.session())
    return one


async def found(store, *words, **which):
    page = await store.turns.search("clinic", SearchFilter(words=words, **which))
    return [hit.message.content for hit in page.rows]


async def test_all_words_occur_in_one_message(store: Store) -> None:
    await write_turns(store, [("user", "The red house"), ("assistant", "A blue House")], [("user", "red and blue")])
    assert await found(store, "red") == ["red and blue", "The red house"]
    assert await found(store, "RED", "hous") == ["The red house"]
    assert await found(store, "red", "blue") == ["red and blue"]
    assert await found(store, "red house") == ["The red house"]
    assert await found(store, "house red") == []


@pytest.mark.gate
@pytest.mark.parametrize("word", ["role", "user", "content", "metadata", "null", "seq", "2025", '"', ":", "{", "-"])
async def test_what_is_around_messages_in_the_file_is_not_found(store: Store, word) -> None:
    await write_turns(store, [("user", "Good morning")])
    assert await found(store, word) == []


@pytest.mark.gate
@pytest.mark.parametrize(
    ("content", "word"),
    [
        ('He said "no"', 'said "NO"'),
        ("C:\\new\\table", "\\NEW\\t"),
        ("one\ntwo\tthree", "ONE\nTWO\tthree"),
        ("a\x01b", "A\x01B"),
        ("我今天睡眠不好", "睡眠"),
        ("Straße der ÉTÉ", "STRAẞE DER été"),
        ("100% (a+b)* [x] ^$ a_b a|b", "(A+B)* [X] ^$ A_B A|B"),
        ("ends with a backslash\\", "backslash\\"),
        ("👩‍👩‍👧 hello", "👩‍👩‍👧 H"),
        ("path/to", "H/T"),
    ],
)
async def test_any_sign_can_be_searched_for(store: Store, content, word) -> None:
    await write_turns(store, [("assistant", "nothing here"), ("user", content)])
    assert await found(store, word) == [content]
    assert await found(store, word, role="user") == [content]
    assert await found(store, word, role="assistant") == []
    assert await found(store, word + "!?") == []


async def test_filters_of_a_search(store: Store) -> None:
    one = await write_turns(store, [("user", "a red one")], [("assistant", "another red one")])
    await write_turns(store, [("system", "red alone")], user_id="ben")
    everything = ["another red one", "red alone", "a red one"]
    assert sorted(await found(store, "red")) == sorted(everything)
    for which, expected in (
        ({"user_id": "ben"}, ["red alone"]),
        ({"session_id": one.session_id}, ["another red one", "a red one"]),
        ({"session_id": "no uuid"}, []),
        ({"role": "system"}, ["red alone"]),
        ({"after": MOMENT + timedelta(minutes=1)}, ["another red one"]),
        ({"before": MOMENT}, []),
        ({"script": "other"}, []),
    ):
        assert await found(store, "red", **which) == expected, which
    assert sorted(await found(store, "red", script="intake")) == sorted(everything)
    assert (await store.turns.search("school", SearchFilter(words=("red",)))).rows == []


async def test_a_session_is_searched_by_the_script_it_moved_to(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    turn = conversation.next_turn()
    await store.turns.commit(turn, 0, migration=conversation.migration(1, script_id="moved"))
    assert await found(store, "question", script="moved") == ["question 1", "question 0"]
    assert await found(store, "question", script="intake") == []


async def test_what_was_taken_out_of_a_conversation_is_not_found(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    await conversation.say(store)
    assert await found(store, "question") == ["question 1", "question 0"]
    await conversation.say(store, state={"gaps": [[1, 2]]})
    assert await found(store, "question") == ["question 2", "question 1"]


@pytest.mark.gate
@pytest.mark.parametrize("limit", [1, 3, 50])
async def test_pages_hold_every_hit_once(store: Store, limit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_search, "_SPARE", 1)
    monkeypatch.setattr(message_search, "CANDIDATES_MAX", 4)
    for _ in range(3):
        await write_turns(store, *[[("user", "yes"), ("user", "yes no"), ("assistant", "no"), ("user", "yes")]] * 3)
    hits, cursor, pages = [], None, 0
    while True:
        page = await store.turns.search("clinic", SearchFilter(words=("YES",)), limit=limit, cursor=cursor)
        hits += [(hit.session_id, hit.message.seq) for hit in page.rows]
        cursor, pages = page.next, pages + 1
        if cursor is None:
            break
        assert len(page.rows) <= limit
        await write_turns(store, [("user", "no")])
    assert len(hits) == len(set(hits)) == 27
    assert pages < 40


# letters with several forms, signs that JSON and regular expressions escape, what stands around messages in the file
ALPHABET = st.sampled_from(
    [*'aAbBkKsSſKiIİıßẞσςΣéÉжЖ睡眠🙂 "\\/\n\t\x00\x01\x7f.*+?()[]{}^$|_-:,', "role", "content", "\\u00"]
)
TEXT = st.lists(ALPHABET, max_size=8).map("".join)
WORD = st.lists(ALPHABET, min_size=1, max_size=3).map("".join)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory):
    """Return a record, and the loop in which it is used."""
    with asyncio.Runner() as runner:
        store = open_store(tmp_path_factory.mktemp("searched"))
        yield store, runner
        runner.run(store.close())


@given(
    turns=st.lists(
        st.lists(st.tuples(st.sampled_from(["user", "assistant"]), TEXT), max_size=4), min_size=1, max_size=4
    ),
    searches=st.lists(st.lists(WORD, min_size=1, max_size=3), min_size=1, max_size=8),
    role=st.sampled_from([None, "user"]),
)
@settings(max_examples=repeats(50))
def test_a_search_finds_what_a_look_at_every_message_finds(searched, turns, searches, role) -> None:
    store, runner = searched
    session = runner.run(write_turns(store, *turns))
    said = [message for turn in reversed(turns) for message in reversed(turn)]
    for words in searches:
        expected = [
            content for by, content in said if role in {None, by} and all(fold(word) in fold(content) for word in words)
        ]
        assert runner.run(found(store, *words, role=role, session_id=session.session_id)) == expected, words
