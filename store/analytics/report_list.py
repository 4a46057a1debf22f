"""The reports there are: what each tells, and what it can be asked; the macros themselves are `reports/NAME.sql`."""

from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["text", "integer", "number", "moment"]
"""What a parameter takes; a moment is a date or a date and time of ISO 8601, in UTC unless it says otherwise."""


class Parameter(Struct, frozen=True):
    """Something a report can be asked."""

    name: str
    kind: Kind
    says: str
    default: str | int | None = None
    """What it is unless it is given; null: no bound, all of them."""
    choices: tuple[str, ...] = ()
    is_needed: bool = False


class Report(Struct, frozen=True):
    """A table that answers a question, as a macro of the same name in every analytics file."""

    name: str
    title: str
    says: str
    parameters: tuple[Parameter, ...]
    reads_words: bool = False
    """Whether it reads what was said, which only a file that is not masked holds."""


SCRIPT = Parameter("script", "text", "id of the script; all scripts unless it is given")
THE_SCRIPT = Parameter("script", "text", "id of the script", is_needed=True)
VERSION = Parameter("version", "integer", "number of the version that sessions began with")
SINCE = Parameter("since", "moment", "sessions created from then on")
UNTIL = Parameter("until", "moment", "sessions created before then")
OF_SESSIONS = (VERSION, SINCE, UNTIL)
ABOUT_SESSIONS = (SCRIPT, *OF_SESSIONS)
SINCE_THEN = Parameter("since", "moment", "what happened from then on")
UNTIL_THEN = Parameter("until", "moment", "what happened before then")
ABOUT_CALLS = (
    Parameter("script", "text", "id of the script that asked; all, and memories, unless it is given"),
    Parameter("version", "integer", "number of the version that asked"),
    SINCE_THEN,
    UNTIL_THEN,
)
IDLE_DAYS = Parameter("idle_days", "number", "days without a turn after which a session counts as given up", 7)
MILESTONE = Parameter(
    "milestone", "text", "id of an action or topic that counts as reached; the end of the script unless it is given"
)
PERIODS = ("day", "week", "month")
PERIOD = Parameter("period", "text", "how long the periods are", "week", PERIODS)
ZONE = Parameter("zone", "text", "time zone in which days begin, such as Asia/Shanghai", "UTC")
SESSION = Parameter("session", "text", "id of the session", is_needed=True)
TURN = Parameter("turn", "integer", "number of the turn; the latest unless it is given")

REPORTS: tuple[Report, ...] = (
    Report(
        "funnel",
        "How far sessions come",
        "The phases, topics or actions of a script in the order they are written, with the sessions that reached each, "
        "skipped it because of its condition, or stand at it unfinished, and of those that could have come from a step "
        "before, the share that did.",
        (
            THE_SCRIPT,
            Parameter("level", "text", "which steps", "phase", ("phase", "topic", "action")),
            *OF_SESSIONS,
            MILESTONE,
        ),
    ),
    Report(
        "drop_off",
        "Where sessions are given up",
        "The places where active sessions stand that nobody has gone on with for some days.",
        (
            SCRIPT,
            Parameter("level", "text", "how exact a place", "action", ("phase", "topic", "action")),
            *OF_SESSIONS,
            IDLE_DAYS,
        ),
    ),
    Report(
        "completion",
        "What becomes of sessions",
        "Sessions by the version of the script they began with: completed, and what ended those, abandoned, going on, "
        "paused, failed; and how many reached the end of the script or a milestone.",
        (*ABOUT_SESSIONS, IDLE_DAYS, MILESTONE),
    ),
    Report(
        "time_to_complete",
        "How long sessions took to the end",
        "From creation to the end of the script or a milestone, by the version of the script a session began with.",
        (*ABOUT_SESSIONS, MILESTONE),
    ),
    Report(
        "time_to_answer",
        "How long users take to reply",
        "By the action that waits for a reply, those that wait longest first.",
        ABOUT_SESSIONS,
    ),
    Report(
        "slots",
        "How well questions fill their variables",
        "The variables a script's questions fill: sessions that were asked, that gave a value, and replies it took.",
        ABOUT_SESSIONS,
    ),
    Report(
        "re_asked",
        "Which questions have to be asked again",
        "The questions by how often one wait for a reply was not enough, with what the author wrote.",
        ABOUT_SESSIONS,
    ),
    Report(
        "next_steps",
        "Where sessions go next",
        "From each phase or topic: to which other one, to the end, or nowhere yet.",
        (
            THE_SCRIPT,
            Parameter("level", "text", "which steps", "topic", ("phase", "topic")),
            *OF_SESSIONS,
        ),
    ),
    Report(
        "activity",
        "What happens day by day",
        "Sessions begun, completed, finished and gone on with, users, turns and messages by day, week or month.",
        (SCRIPT, SINCE_THEN, UNTIL_THEN, Parameter("period", "text", "how long the periods are", "day", PERIODS), ZONE),
    ),
    Report(
        "returning_users",
        "New and returning users",
        "Users who began a session in each period: for the first time, or again.",
        (SCRIPT, SINCE, UNTIL, PERIOD, ZONE),
    ),
    Report(
        "cohorts",
        "Who comes back",
        "Users by the week of their first session, and how many of them began another one in each week after it.",
        (
            SCRIPT,
            Parameter("since", "moment", "users whose first session began from then on"),
            Parameter("until", "moment", "users whose first session began before then"),
            PERIOD,
            ZONE,
        ),
    ),
    Report(
        "model_cost",
        "What language models cost",
        "Calls, tokens and cost by the version of the script, the model and what was asked.",
        ABOUT_CALLS,
    ),
    Report(
        "model_latency",
        "How fast language models answer",
        "Milliseconds to the end of a reply and to its first words, by model and what was asked.",
        ABOUT_CALLS,
    ),
    Report(
        "detector_hits",
        "What detectors see",
        "How often each detector acted on what, in how many sessions, and how grave it was.",
        ABOUT_SESSIONS,
    ),
    Report(
        "experiments",
        "Whether the arms of experiments differ",
        "Sessions or users of each arm, how many reached the goal, and the difference to the base arm: 95 % intervals "
        "after Wilson and Newcombe, and a z-test, or Fisher's exact test where fewer than ten cases are expected.",
        (
            Parameter("experiment", "text", "the experiment; all unless it is given"),
            *ABOUT_SESSIONS,
            Parameter(
                "unit",
                "text",
                "what is counted; what the experiment assigns to arms unless it is given",
                None,
                ("session", "user"),
            ),
            Parameter(
                "base", "text", "the arm that others are compared with; the first in the script unless it is given"
            ),
            Parameter(
                "goal_phase", "text", "reaching this phase is the goal; the end of the script unless one is named"
            ),
            Parameter("goal_topic", "text", "reaching this topic is the goal"),
            Parameter("goal_action", "text", "reaching this action is the goal"),
            Parameter("goal_variable", "text", "giving this variable a value is the goal"),
            Parameter("goal_value", "text", "the value that the variable is to have"),
        ),
    ),
    Report(
        "message_search",
        "What was said",
        "The messages in which all the words occur, the latest first.",
        (
            Parameter("words", "text", "words that must occur, in either case", is_needed=True),
            SCRIPT,
            Parameter("role", "text", "who said it", None, ("user", "assistant", "system", "tool")),
            Parameter("since", "moment", "messages said from then on"),
            Parameter("until", "moment", "messages said before then"),
            Parameter("hits_max", "integer", "how many messages at most", 100),
        ),
        reads_words=True,
    ),
    Report(
        "session_at",
        "Where a session stood",
        "The place and state of a session after a turn, and what had happened by then.",
        (SESSION, TURN),
    ),
    Report(
        "variables_at",
        "What a session knew",
        "The variables that a session had after a turn, with those of its user.",
        (SESSION, TURN),
    ),
)
