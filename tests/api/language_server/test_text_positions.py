"""Offsets of a text, and the lines and columns of editors in the units of each encoding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.types import Position, PositionEncodingKind

from api.language_server.text_positions import TextPositions

TEXT = "say: 😀é x\r\nid: 中\rlast\n"


@pytest.mark.parametrize(
    ("encoding", "columns"),
    [
        (PositionEncodingKind.Utf8, (5, 9, 11, 7)),
        (PositionEncodingKind.Utf16, (5, 7, 8, 5)),
        (PositionEncodingKind.Utf32, (5, 6, 7, 5)),
    ],
)
def test_columns_are_counted_in_the_units_of_the_encoding(encoding, columns) -> None:
    positions = TextPositions(TEXT, encoding)
    offsets = [TEXT.index(each) for each in "😀é"]
    found = [positions.range(each, each).start for each in (*offsets, TEXT.index(" x"), TEXT.index("\rlast"))]
    assert found == [*(Position(0, each) for each in columns[:3]), Position(1, columns[3])]
    assert [positions.offset(each) for each in found[:2]] == offsets


def test_lines_end_as_those_of_scripts_do() -> None:
    assert TextPositions(TEXT, PositionEncodingKind.Utf16).lines == ["say: 😀é x", "id: 中", "last", ""]
    assert TextPositions("a\u2028b\x0cc\x85d", PositionEncodingKind.Utf16).lines == ["a\u2028b\x0cc\x85d"]


def test_byte_order_mark_is_a_column_of_the_first_line_only() -> None:
    positions = TextPositions("\ufeffa: b\nc: d", PositionEncodingKind.Utf16)
    assert positions.text == "a: b\nc: d"
    assert positions.offset(Position(0, 4)) == 3
    assert positions.range(0, 5).start == Position(0, 1)
    assert positions.range(0, 5).end == Position(1, 0)


@given(
    st.text("a😀中\r\n\ufeff", max_size=20),
    st.sampled_from([PositionEncodingKind.Utf8, PositionEncodingKind.Utf16, PositionEncodingKind.Utf32]),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_positions_and_offsets_correspond(text, encoding, line, column) -> None:
    positions = TextPositions(text, encoding)
    assert 0 <= positions.offset(Position(line, column)) <= len(positions.text)
    ends = {found for found in range(1, len(positions.text)) if positions.text[found - 1 : found + 1] == "\r\n"}
    for offset in {*range(len(positions.text) + 1)} - ends:  # between the characters of a line's end is no position
        assert positions.offset(positions.range(offset, offset).start) == offset
