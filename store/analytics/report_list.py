"""The list of the reports, with their descriptions and parameters. The macros are in `reports/NAME.sql`."""

from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["text", "integer", "number", "moment"]
"""The type of a parameter; a moment is an ISO 8601 date, or date and time, in UTC unless it has an offset."""


class Parameter(Struct, frozen=True):
    """A parameter of a report."""

    name: str
    kind: Kind
    says: str
    default: str | int | None = None
    """The default value; null: no limit."""
    choices: tuple[str, ...] = ()
    needed: bool = False


class Report(Struct, frozen=True):
    """A report: a table macro of the same name in every analytics file."""

    name: str
    title: str
    says: str
    parameters: tuple[Parameter, ...]
    reads_words: bool = False
    """Whether it reads the texts of messages, which only unmasked files contain."""


SCRIPT = Parameter("script", "text", "id of the script; all scripts if omitted")
THE_SCRIPT = Parameter("script", "text", "id of the script", needed=True)
VERSION = Parameter("version", "integer", "number of the version that sessions started with")
SINCE = Parameter("since", "moment", "sessions created at or after this time")
UNTIL = Parameter("until", "moment", "sessions created before this time")
OF_SESSIONS = (VERSION, SINCE, UNTIL)
ABOUT_SESSIONS = (SCRIPT, *OF_SESSIONS)
SINCE_THEN = Parameter("since", "moment", "activity at or after this time")
UNTIL_THEN = Parameter("until", "moment", "activity before this time")
ABOUT_CALLS = (
    Parameter("script", "text", "id of the script that made the call; all scripts and memories if omitted"),
    Parameter("version", "integer", "number of the version that made the call"),
    SINCE_THEN,
    UNTIL_THEN,
)
IDLE_DAYS = Parameter("idle_days", "number", "days without a turn after which a session counts as abandoned", 7)
MILESTONE = Parameter(
    "milestone",
    "text",
    "milestone of the script, or id of an action or topic, to reach; the end of the script if omitted",
)
PERIODS = ("day", "week", "month")
PERIOD = Parameter("period", "text", "length of the periods", "week", PERIODS)
ZONE = Parameter("zone", "text", "time zone of the days, such as Asia/Shanghai", "UTC")
SESSION = Parameter("session", "text", "id of the session", needed=True)
TURN = Parameter("turn", "integer", "number of the turn; the latest if omitted")

REPORTS: tuple[Report, ...] = (
    Report(
        "funnel",
        "Progress of sessions",
        "The phases, topics or actions of a script in the order of the script, with the sessions that reached each "
        "step, skipped it because of its condition, or stopped at it, and the share of the sessions at a previous step "
        "that reached it.",
        (
            THE_SCRIPT,
            Parameter("level", "text", "kind of steps", "phase", ("phase", "topic", "action")),
            *OF_SESSIONS,
            MILESTONE,
        ),
    ),
    Report(
        "drop_off",
        "Positions of abandoned sessions",
        "The positions of active sessions that have had no turn for some days.",
        (
            SCRIPT,
            Parameter("level", "text", "precision of the position", "action", ("phase", "topic", "action")),
            *OF_SESSIONS,
            IDLE_DAYS,
        ),
    ),
    Report(
        "completion",
        "Outcomes of sessions",
        "Sessions by the version of the script they started with: completed, with what ended them, abandoned, active, "
        "paused and failed sessions; and how many reached the end of the script or a milestone.",
        (*ABOUT_SESSIONS, IDLE_DAYS, MILESTONE),
    ),
    Report(
        "outcomes",
        "Outcomes by name",
        "Completed sessions by the version of the script they started with and the outcome that the script gave them.",
        ABOUT_SESSIONS,
    ),
    Report(
        "time_to_complete",
        "Time to completion",
        "Time from creation to the end of the script or a milestone, by the version of the script that a session "
        "started with.",
        (*ABOUT_SESSIONS, MILESTONE),
    ),
    Report(
        "time_to_answer",
        "Response times of users",
        "Time until the user replies, by the action that waits for the reply, the longest first.",
        ABOUT_SESSIONS,
    ),
    Report(
        "slots",
        "Variables filled by questions",
        "The variables that questions of a script fill: sessions that reached the question, sessions that gave a "
        "value, and the number of replies.",
        ABOUT_SESSIONS,
    ),
    Report(
        "re_asked",
        "Repeated questions",
        "Questions by how often they were asked more than once in a visit, with the text of the author.",
        ABOUT_SESSIONS,
    ),
    Report(
        "next_steps",
        "Transitions between steps",
        "From each phase or topic: the transitions to another one or to the end, and the sessions still at it.",
        (
            THE_SCRIPT,
            Parameter("level", "text", "kind of steps", "topic", ("phase", "topic")),
            *OF_SESSIONS,
        ),
    ),
    Report(
        "activity",
        "Activity over time",
        "Started, completed, finished and active sessions, users, turns and messages by day, week or month.",
        (SCRIPT, SINCE_THEN, UNTIL_THEN, Parameter("period", "text", "length of the periods", "day", PERIODS), ZONE),
    ),
    Report(
        "returning_users",
        "New and returning users",
        "Users who started a session in each period, for the first time or again.",
        (SCRIPT, SINCE, UNTIL, PERIOD, ZONE),
    ),
    Report(
        "cohorts",
        "User retention by cohort",
        "Users by the period of their first session, and how many of them started a session in each later period.",
        (
            SCRIPT,
            Parameter("since", "moment", "users whose first session was created at or after this time"),
            Parameter("until", "moment", "users whose first session was created before this time"),
            PERIOD,
            ZONE,
        ),
    ),
    Report(
        "model_cost",
        "Cost of language models",
        "Calls, tokens and cost by version of the script, model and purpose.",
        ABOUT_CALLS,
    ),
    Report(
        "model_latency",
        "Latency of language models",
        "Milliseconds to the end of a reply and to its first words, by model and purpose.",
        ABOUT_CALLS,
    ),
    Report(
        "detector_hits",
        "Detections by detector",
        "Number of detections by detector and label, number of sessions, and severity.",
        ABOUT_SESSIONS,
    ),
    Report(
        "experiments",
        "Comparison of the arms of experiments",
        "Sessions or users of each arm, how many reached the goal, and the difference from the base arm: 95 % "
        "intervals by Wilson and Newcombe, and a z-test, or Fisher's exact test if fewer than ten cases are expected.",
        (
            Parameter("experiment", "text", "the experiment; all experiments if omitted"),
            *ABOUT_SESSIONS,
            Parameter(
                "unit",
                "text",
                "what is counted; the unit that the experiment assigns to arms if omitted",
                None,
                ("session", "user"),
            ),
            Parameter(
                "base", "text", "the arm that the others are compared with; the first arm in the script if omitted"
            ),
            Parameter(
                "goal_phase", "text", "reaching this phase is the goal; the end of the script if there is no goal"
            ),
            Parameter("goal_topic", "text", "reaching this topic is the goal"),
            Parameter("goal_action", "text", "reaching this action is the goal"),
            Parameter("goal_variable", "text", "giving this variable a value is the goal"),
            Parameter("goal_value", "text", "the value that the variable must have"),
        ),
    ),
    Report(
        "message_search",
        "Search in messages",
        "The messages that contain all the words, the newest first.",
        (
            Parameter("words", "text", "words that must all occur, ignoring case", needed=True),
            SCRIPT,
            Parameter("role", "text", "author of the message", None, ("user", "assistant", "system", "tool")),
            Parameter("since", "moment", "messages at or after this time"),
            Parameter("until", "moment", "messages before this time"),
            Parameter("hits_max", "integer", "maximum number of messages", 100),
        ),
        reads_words=True,
    ),
    Report(
        "session_at",
        "Position of a session at a turn",
        "The position and status of a session after a turn, and the number of messages, writes and events until then.",
        (SESSION, TURN),
    ),
    Report(
        "variables_at",
        "Variables of a session at a turn",
        "The variables that a session had after a turn, including those of its user.",
        (SESSION, TURN),
    ),
)
