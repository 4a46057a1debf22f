"""A string table stays up to date with its script, loses nothing, and is the same when nothing changed."""

from textwrap import dedent

from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.model.base import NOWHERE, Template
from scripts.model.diagnostics import Problems
from scripts.model.script import StringTable, Translation
from scripts.translations.localisation import Line
from scripts.translations.string_tables import Update, read_table, table_yaml, update_lines
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping, read_tree


def table_of(text: str) -> StringTable:
    problems = Problems()
    tree = read_tree(text, problems)
    assert isinstance(tree, Mapping)
    table = read_table(tree, Reader(problems, lenient=False))
    assert table is not None
    assert problems.sorted() == ()
    return table


def lines(texts: dict[str, str]) -> list[Line]:
    return [Line(id, text, NOWHERE, NOWHERE) for id, text in texts.items()]


def update_table(before: str, texts: dict[str, str]) -> tuple[Update, str]:
    update = update_lines(table_of(before), lines(texts), "de")
    return update, table_yaml(update.table, before)


def counts(update: Update) -> tuple[int, int, int]:
    return update.translated, update.missing, update.stale


BEFORE = dedent("""\
    # By Eva.
    strings: de
    lines:
      # how she greets
      p/t/a.say:
        of: Hello.
        text: Hallo.
      p/t/b.say:
        of: Bye.
        text: Tschüss.
    # to be continued
    """)


def test_a_new_table_has_every_line_empty_and_says_what_it_is() -> None:
    update = update_lines(None, lines({"p/t/a.say": "Hello."}), "de")
    text = table_yaml(update.table, title="German.")
    assert text == '# German.\nstrings: de\nlines:\n  p/t/a.say:\n    of: Hello.\n    text: ""\n'
    assert counts(update) == (0, 1, 0)


def test_what_did_not_change_stays_with_its_comments() -> None:
    update, text = update_table(BEFORE, {"p/t/a.say": "Hello.", "p/t/b.say": "Bye."})
    assert (text, counts(update)) == (BEFORE, (2, 0, 0))


def test_changed_text_shows_its_former_one_until_it_is_reviewed() -> None:
    update, text = update_table(BEFORE, {"p/t/a.say": "Hello there.", "p/t/b.say": "Bye."})
    changed = "    was: Hello.\n    of: Hello there.\n    text: Hallo.\n"
    assert changed in text
    assert counts(update) == (1, 0, 1)
    assert update_table(text, {"p/t/a.say": "Hello there.", "p/t/b.say": "Bye."})[1] == text
    again = update_table(text, {"p/t/a.say": "Hello you.", "p/t/b.say": "Bye."})[1]
    assert "    was: Hello.\n    of: Hello you.\n" in again
    assert update_table(text, {"p/t/a.say": "Hello.", "p/t/b.say": "Bye."})[1] == BEFORE
    looked_at = text.replace("    was: Hello.\n", "")
    assert counts(update_table(looked_at, {"p/t/a.say": "Hello there.", "p/t/b.say": "Bye."})[0]) == (2, 0, 0)


def test_a_line_that_is_no_more_is_set_aside_and_comes_back() -> None:
    update, text = update_table(BEFORE, {"p/t/b.say": "Bye."})
    assert "unused:\n  # how she greets\n  p/t/a.say:\n    of: Hello.\n    text: Hallo.\n" in text
    assert (counts(update), update.set_aside) == ((1, 0, 0), 1)
    back, again = update_table(text, {"p/t/a.say": "Hello.", "p/t/b.say": "Bye."})
    assert (counts(back), again) == ((2, 0, 0), BEFORE)


def test_a_line_under_another_id_keeps_its_translation() -> None:
    update, text = update_table(BEFORE, {"p/u/hello.say": "Hello.", "p/t/b.say": "Bye."})
    assert "  # how she greets\n  p/u/hello.say:\n    of: Hello.\n    text: Hallo.\n" in text
    assert (counts(update), update.moved, update.set_aside) == ((2, 0, 0), 1, 0)


def test_texts_of_one_say_keep_translations_when_reordered() -> None:
    before = "strings: de\nlines:\n  a.say: {of: One, text: Eins}\n  a.say.2: {of: Two, text: Zwei}\n"
    update, _ = update_table(before, {"a.say": "New", "a.say.2": "One", "a.say.3": "Two"})
    said = {id: (each.was, each.text.source) for id, each in update.table.lines.items()}
    assert said == {"a.say": ("One", "Eins"), "a.say.2": (None, "Eins"), "a.say.3": (None, "Zwei")}
    assert update.table.unused == {}


def test_translation_without_its_source_is_of_the_present_text() -> None:
    update, text = update_table("strings: de\nlines: {p/t/a.say: Hallo.}\n", {"p/t/a.say": "Hello."})
    assert counts(update) == (1, 0, 0)
    assert "of: Hello." in text


some_ids = st.sampled_from(["a.say", "a.say.2", "a.say.3", "b.ask", "b.output.x.choices.1 : #", "c~", "'"])
some_texts = st.sampled_from(["One", "Two", "Three: #3", " four\nlines\n\n", "{{ x }}", "null", "'", '"', "\t", "五"])
any_texts = some_texts | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
scripts = st.dictionaries(some_ids, any_texts.filter(str.strip), max_size=6)
translations = st.builds(
    lambda was, of, text: Translation(was=was, of=of, text=Template(text)),
    st.none() | any_texts,
    st.none() | any_texts,
    st.just("") | any_texts,
)
tables = st.builds(
    lambda some, unused: StringTable(locale="de", lines=some, unused=unused),
    st.dictionaries(some_ids, translations, max_size=6),
    st.dictionaries(some_ids, translations.filter(lambda each: not each.is_missing), max_size=3),
)


def translated(table: StringTable) -> set[str]:
    found = (each for part in (table.lines, table.unused) for each in part.values())
    return {each.text.source for each in found if not each.is_missing}


@settings(deadline=None)
@given(table=tables, texts=st.lists(scripts, min_size=1, max_size=4))
def test_any_table_follows_any_script_without_loss(table, texts) -> None:
    written = table_yaml(table)
    for version in texts:
        before = table_of(written)
        update = update_lines(before, lines(version), "de")
        assert list(update.table.lines) == list(version)
        assert all(update.table.lines[id].of == text for id, text in version.items())
        assert translated(before) == translated(update.table)
        written = table_yaml(update.table, written)
        again = update_lines(table_of(written), lines(version), "de")
        assert table_yaml(again.table, written) == written
        assert counts(again) == counts(update)
