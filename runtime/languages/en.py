"""English."""

from runtime.languages.language import ChoiceWords, DayWords, Language

LANGUAGE = Language(
    code="en",
    phrases={
        "invalid": "Sorry, that does not fit. Could you answer again?",
        "text": "Sorry, I did not get that. Could you say it again?",
        "number": "Sorry, I need a number here.",
        "boolean": "Sorry, was that a yes or a no?",
        "date": "Sorry, I need a date here, such as 2026-01-31.",
        "choice": "Sorry, please choose one of these: {choices}.",
        "list": "Sorry, please list them, separated by commas.",
        "record": "Sorry, I could not read that.",
        "noted": "Thank you for telling me. Is there anything else?",
        "needed": "I do need an answer to this one.",
        "cancelled": "All right, let us leave that.",
        "corrected": "Noted: {choices}.",
        "which": "What shall I change? Say it like “age: 30”.",
        "handed_over": "I have let someone know; they will get back to you.",
        "required": "This is needed.",
        "missing": "Still needed: {choices}.",
        "unread": "I could not read that. Say it like this: {choices}",
        "multichoice": "Sorry, please choose any of these: {choices}.",
        "table": "Sorry, I could not read these rows.",
        "busy": "I cannot go on just now. Please try again later.",
    },
    farewells=("bye", "goodbye", "that's all", "that is all", "i'm done", "no more", "nothing else", "see you"),
    repairs={
        "repeat": (
            "repeat", "repeat that", "please repeat", "say that again", "say it again", "once more", "pardon",
            "can you repeat that", "what was the question", "what did you say",
        ),
        "skip": (
            "skip", "skip this", "skip it", "skip this question", "next question", "pass", "i'd rather not say",
            "i would rather not say", "i prefer not to say",
        ),
        "cancel": ("cancel", "cancel this", "never mind", "nevermind", "forget it", "leave it", "stop this"),
        "correct": ("correction", "correct", "change", "actually", "i meant", "sorry, i meant", "i said it wrong"),
        "hand_over": (
            "human", "a human please", "talk to a human", "speak to a human", "real person", "talk to a person",
            "speak to a person", "i want to talk to a human", "i want to speak to a person", "agent",
        ),
    },
    becomes=("to",),
    joins=("and",),
    nothing=("none", "nothing", "no", "nil", "n/a"),
    is_words=("is",),
    before_labels=("and", "my", "the"),
    choices=ChoiceWords(
        leads=(
            "i", "i'd", "i'll", "would", "will", "like", "want", "take", "choose", "pick", "select", "go", "with",
            "my",
            "the", "answer", "is", "it's", "option", "choice", "number",
        ),
        tails=("please", "thanks"),
        ordinals={
            "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8,
            "ninth": 9, "tenth": 10, "last": -1,
        },
        nouns=("one", "option", "choice", "answer", "item"),
        but=("but",),
        without=("except", "without", "rather than", "anything but"),
    ),
    dates=DayWords(
        days={
            "today": 0, "tomorrow": 1, "yesterday": -1, "day after tomorrow": 2, "day before yesterday": -2,
        },
        ago=("{} ago",),
        ahead=("in {}",),
        day_units=("day", "days"),
        week_units=("week", "weeks"),
        next=("next", "coming"),
        last=("last", "past"),
        this=("this",),
        one=("a", "an", "one"),
    ),
    ordinal_suffixes=("st", "nd", "rd", "th"),
)  # fmt: skip
