"""The words of the stage form: what names an action, what stands around actions, and what no runtime here can do."""

from collections.abc import Mapping

DO = ("do", "then", "actions", "steps")
ELSE = ("else", "else_do", "otherwise", "else_actions")
ELSE_IF = ("elif", "else_if", "elseif", "elsif")
UNTIL = ("loop_until", "repeat_until", "until", "repeat", "loop")
WHILE = ("while", "loop_while")
FOREACH = ("foreach", "for_each", "fromlist", "from_list", "fromList")
WHEN = ("when", "condition", "if", "only_if")
TEXTS = ("task", "content", "text", "question", "prompt", "message")
"""The keys of the text of an action, where it does not stand behind the action's own name."""
OLDER_TEXTS = ("content_template", "question_template", "prompt_template", "think_goal")
KINDS = ("action_type", "type", "action")
"""The keys that name an action in ``{type: ai_say, content: …}``."""

VERBS: Mapping[str, str] = {
    **dict.fromkeys(("say", "said"), "say"),
    "ai_say": "ai_say",
    **dict.fromkeys(("ai_ask",), "ai_ask"),
    "ask": "ask",
    **dict.fromkeys(("think", "ai_think"), "think"),
    **dict.fromkeys(("user_say", "human_say", "user_reply"), "user_say"),
    **dict.fromkeys(("user_option", "user_options", "user_choose", "user_select", "choose", "option"), "choose"),
    **dict.fromkeys(("call", "use_skill", "skill", "call_goal"), "call"),
    **dict.fromkeys(("fill", "form", "show_form", "fill_form"), "form"),
    **dict.fromkeys(("show", "show_pic", "show_image", "image", "pic"), "show"),
    **dict.fromkeys(("set", "assign", "let"), "set"),
    **dict.fromkeys(("goto", "go_to", "jump"), "goto"),
    **dict.fromkeys(("end", "finish", "stop", "end_session"), "end"),
    "scene": "scene",
    **dict.fromkeys(("chat", "ai_chat"), "chat"),
    **dict.fromkeys(("emit", "event"), "emit"),
    **dict.fromkeys(("output", "outputs", "get"), "output"),
}
"""The words that name an action, and the action each of them is."""
BLOCKS = frozenset({*FOREACH, "if", *UNTIL, *WHILE})
SPOKEN = frozenset(
    word for word, kind in VERBS.items() if kind in {"say", "ai_say", "ai_ask", "ask", "think", "user_say", "chat"}
)

_TIMES = "Remove it; where the application keeps the time, `emit: EVENT` tells it when to begin."
UNSUPPORTED: Mapping[str, tuple[str, str]] = {
    "timing": ("the stage form measures no time", _TIMES),
    "timing_to": ("the stage form measures no time", _TIMES),
    "check_time": (
        "a rule is looked at with every message of the user, and at no other time",
        "Write `check_time: user_say`, or remove it.",
    ),
}
"""Keys that their makers know and no session here can carry out: why, and what to write."""
