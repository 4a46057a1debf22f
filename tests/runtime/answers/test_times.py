"""What times, moments and time zones a free reply gives without a model, in every language of the runtime."""

from datetime import date, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.answers.clock_times import parse_datetime, parse_time
from runtime.answers.languages import CODES
from runtime.answers.reply_values import read_further, read_outputs
from runtime.answers.timezones import parse_timezone
from scripts.expressions.values import coerce
from scripts.model.variables import Output

TODAY = date(2026, 11, 25)  # a Wednesday


@pytest.mark.parametrize(
    ("locale", "reply", "found"),
    [
        ("en", "9:30", "09:30"),
        ("en", "21:05:30", "21:05:30"),
        ("en", "9", "09:00"),
        ("en", "nine, please", None),
        ("en", "at nine", "09:00"),
        ("en", "9pm", "21:00"),
        ("en", "10.30 a.m.", "10:30"),
        ("en", "12 am", "00:00"),
        ("en", "12 pm", "12:00"),
        ("en", "half past nine in the evening", "21:30"),
        ("en", "a quarter to ten", "09:45"),
        ("en", "nine o'clock", "09:00"),
        ("en", "at noon", "12:00"),
        ("en", "I am free at 12", "12:00"),
        ("en", "2 at night", "02:00"),
        ("en", "11 at night", "23:00"),
        ("en-GB", "half past 9", "09:30"),
        ("en", "six thirty", "06:30"),
        ("en", "at six forty-five in the evening, please", "18:45"),
        ("en", "seven pm", "19:00"),
        ("en", "seven fifteen pm", "19:15"),
        ("en", "I am up at seven", "07:00"),
        ("en", "half-past six", "06:30"),
        ("en", "twenty to seven", "06:40"),
        ("en", "quarter to seven", "06:45"),
        ("en", "6.30", "06:30"),
        ("en", "at 6.30.", "06:30"),
        ("en", "18h30", "18:30"),
        ("en", "6 30", "06:30"),
        ("en", "0630", "06:30"),
        ("en", "1990", None),
        ("en", "630", None),
        ("en", "six thirty or seven fifteen", None),
        ("en", "six people", None),
        ("en", "twenty one", None),
        ("en", "6.75", None),
        ("en", "6.30 euros", None),
        ("de", "sechs Uhr dreißig", "06:30"),
        ("de", "18.30", "18:30"),
        ("de", "sechs Uhr morgens", "06:00"),
        ("fr", "sept heures quinze", "07:15"),
        ("zh", "六点半", "06:30"),
        ("zh", "下午三点一刻", "15:15"),
        ("zh", "差一刻七点", "06:45"),
        ("zh", "晚上七点差十分", "18:50"),
        ("de", "halb zehn", "09:30"),
        ("de", "9 Uhr 30", "09:30"),
        ("de", "9.30 Uhr", "09:30"),
        ("de", "Viertel nach acht abends", "20:15"),
        ("de", "um Mitternacht", "00:00"),
        ("fr", "9h30", "09:30"),
        ("fr", "neuf heures et demie du soir", "21:30"),
        ("es", "a las 9 y media de la noche", "21:30"),
        ("it", "alle 9 e mezza", "09:30"),
        ("pt", "um quarto para as dez", "09:45"),
        ("nl", "half tien", "09:30"),
        ("nl", "'s avonds om 8 uur", "20:00"),
        ("zh", "上午九点半", "09:30"),
        ("zh", "下午3:30", "15:30"),
        ("zh", "晚上12点", "00:00"),
        ("zh", "两点一刻", "02:15"),
        ("ko", "오후 3:30", "15:30"),
        ("en", "9:00 to 10:00", None),
        ("en", "not at 9", None),
        ("en", "24:00", None),
        ("en", "9:61", None),
        ("en", "2 hours", None),
        ("en", "3.5", None),
        ("en", "at 5/6/2026", None),
        ("en", "early", None),
        ("en", "9 in the morning or in the evening", None),
        ("en", "at 9 or 10", None),
        ("en", "9 or 10 pm", None),
        ("en", "9 am, or ten", None),
        ("en", "nine or at ten", None),
        ("en", "at 9 or so", "09:00"),
        ("en", "from 9 to 10 pm", None),
        ("en", "9-10 pm", None),
        ("en", "9 am to 10", None),
        ("de", "9 bis 10 Uhr", None),
        ("fr", "de 9 à 10 heures", None),
        ("zh", "9到10点", None),
        ("de", "um 9 oder 10", None),
        ("de", "9 oder 10 Uhr", None),
        ("fr", "à 9 heures ou 10", None),
        ("zh", "9或10点", None),
        ("zh", "早上九点或十", None),
    ],
)
def test_the_time_in_a_reply(locale: str, reply: str, found: str | None) -> None:
    assert parse_time(reply, locale) == found


@pytest.mark.parametrize(
    ("locale", "reply", "found"),
    [
        ("en", "tomorrow at 9:30", "2026-11-26T09:30:00"),
        ("en", "2026-12-01 9:30", "2026-12-01T09:30:00"),
        ("en", "2026-12-01T09:30+02:00", "2026-12-01T09:30:00+02:00"),
        ("en", "tomorrow at six thirty", "2026-11-26T06:30:00"),
        ("en", "tonight at 8", "2026-11-25T20:00:00"),
        ("en", "next Friday at noon", "2026-11-27T12:00:00"),
        ("de", "am 3. Mai 2027 um halb zehn", "2027-05-03T09:30:00"),
        ("de", "1.5.2027, 9.30 Uhr", "2027-05-01T09:30:00"),
        ("fr", "demain à 9h30", "2026-11-26T09:30:00"),
        ("zh", "明天上午九点半", "2026-11-26T09:30:00"),
        ("zh", "今晚八点", "2026-11-25T20:00:00"),
        ("en", "at 9", None),
        ("en", "tomorrow at 9 or 10", None),
        ("en", "tomorrow at 9 or on Friday", None),
        ("en", "2026-12-10 - 9:00", "2026-12-10T09:00:00"),
        ("en", "9:00 - 10.12.2026", "2026-12-10T09:00:00"),
        ("en", "tomorrow", None),
        ("en", "2026-02-30 9:00", None),
    ],
)
def test_the_date_and_time_in_a_reply(locale: str, reply: str, found: str | None) -> None:
    assert parse_datetime(reply, TODAY, locale) == found


@pytest.mark.parametrize(
    ("locale", "reply", "found"),
    [
        ("en", "europe/berlin, please", "Europe/Berlin"),
        ("en", "I live in Berlin.", "Europe/Berlin"),
        ("de", "Moskau", "Europe/Moscow"),
        ("zh", "我在上海", "Asia/Shanghai"),
        ("pt", "São Paulo", "America/Sao_Paulo"),
        ("en", "Buenos Aires", "America/Argentina/Buenos_Aires"),
        ("en", "utc", "UTC"),
        ("en", "UTC+2", "Etc/GMT-2"),
        ("en", "GMT-3:00", "Etc/GMT+3"),
        ("en", "UTC+5:30", None),
        ("en", "UTC+15", None),
        ("en", "Berlin or Paris", None),
        ("en", "here", None),
    ],
)
def test_the_time_zone_in_a_reply(locale: str, reply: str, found: str | None) -> None:
    assert parse_timezone(reply, locale) == found


@given(clock=st.times(), locale=st.sampled_from(CODES))
def test_a_time_in_digits_is_read_in_every_language(clock: time, locale: str) -> None:
    shown = clock.strftime("%H:%M")
    assert parse_time(shown, locale) == shown
    assert parse_time(f"{shown}.", locale) == shown


@given(day=st.dates(date(1900, 1, 1), date(2100, 1, 1)), clock=st.times(), locale=st.sampled_from(CODES))
def test_a_moment_in_digits_is_read_in_every_language(day: date, clock: time, locale: str) -> None:
    shown = clock.strftime("%H:%M")
    assert parse_datetime(f"{day} {shown}", TODAY, locale) == f"{day}T{shown}:00"


@given(reply=st.text(max_size=60), locale=st.sampled_from((*CODES, "ko", "ar", "xx")))
def test_whatever_is_read_can_be_stored(reply: str, locale: str) -> None:
    for found, declared in (
        (parse_time(reply, locale), "time"),
        (parse_datetime(reply, TODAY, locale), "datetime"),
        (parse_timezone(reply, locale), "timezone"),
    ):
        assert found is None or coerce(found, declared) == found


@pytest.mark.parametrize(
    ("locale", "reply", "found"),
    [
        ("en", "noon", "12:00"),
        ("en", "midnight", "00:00"),
        ("en", "9pm", "21:00"),
        ("zh", "九点", "09:00"),
        ("zh", "正午", "12:00"),
        ("zh", "中午", "12:00"),
        ("zh", "中午十二点半", "12:30"),
        ("zh", "中午一点", "13:00"),
        ("de", "mittags", "12:00"),
        ("en", "9", None),
        ("en", "6.30", None),
        ("en", "nine", None),
        ("en", "Ana", None),
        ("de", "neun", None),
        ("zh", "九", None),
    ],
)
def test_one_word_beside_other_questions(locale: str, reply: str, found: str | None) -> None:
    """A number may answer another question; a time cannot."""
    outputs = (Output(get="name"), Output(get="at", type="time"))
    assert read_outputs(outputs, reply, TODAY, locale).values.get("at") == found


@pytest.mark.parametrize("locale", ["en", "de", "zh"])
@pytest.mark.parametrize("word", ["10:00 ", "九点", "half past nine ", "9 uhr "])
def test_a_reply_with_very_many_times_has_none(word: str, locale: str) -> None:
    """Each time that is found costs a look at the whole reply."""
    reply = word * 300
    assert (parse_time(reply, locale), parse_datetime(reply, TODAY, locale)) == (None, None)


@pytest.mark.parametrize(
    ("reply", "cups", "at"),
    [
        ("drink: coffee, at: 5 pm", None, "17:00"),
        ("at: 5 pm, 3 cups", 3, "17:00"),
        ("at: 1,5", None, None),
        ("cups: 5", 5, None),
        ("5 cups, drink: tea", 5, None),
        ("drink: 7up", None, None),
        ("drink: 7up, 2 cups", 2, None),
        ("7 cups, drink: 7up", 7, None),
    ],
)
def test_a_labelled_value_is_no_value_of_another_type(reply: str, cups: float | None, at: str | None) -> None:
    outputs = (Output(get="drink", type="text"), Output(get="cups", type="number"), Output(get="at", type="time"))
    found = read_outputs(outputs, reply, TODAY, "en").values
    assert (found.get("cups"), found.get("at")) == (cups, at)
    assert read_further(outputs, ["drink", "at"], reply, TODAY, "en").values.get("cups") == cups


@pytest.mark.parametrize(
    ("reply", "type_", "values"),
    [
        ("at 5 pm", "time", {"at": "17:00"}),
        ("5", "time", {"cups": 5}),
        ("2026-03-01", "date", {"at": "2026-03-01"}),
        ("in 2 weeks", "date", {"at": (TODAY + timedelta(days=14)).isoformat()}),
        ("2 cups tomorrow", "date", {"cups": 2, "at": (TODAY + timedelta(days=1)).isoformat()}),
        ("cups: 2, at 5 pm", "time", {"cups": 2, "at": "17:00"}),
    ],
)
def test_digits_of_a_date_or_time_are_no_number(reply: str, type_: Any, values: dict[str, object]) -> None:
    outputs = (Output(get="cups", type="number"), Output(get="at", type=type_))
    assert read_outputs(outputs, reply, TODAY, "en").values == values


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        ("cups: 2, at 5 pm", {"cups": 2, "at": "17:00"}),
        ("cups: 2; 5 pm", {"cups": 2, "at": "17:00"}),
        ("cups: 2, no, 3", {}),
        ("cups: 2 or 3, at 5 pm", {"at": "17:00"}),
    ],
)
def test_a_labelled_value_ends_where_another_follows(reply: str, values: dict[str, object]) -> None:
    outputs = (Output(get="cups", type="number"), Output(get="at", type="time"))
    assert read_outputs(outputs, reply, TODAY, "en").values == values
