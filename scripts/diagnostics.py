"""What can be wrong with a script: one code a problem, with its cause and its cure."""

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from scripts.nodes import NOWHERE, Location

Severity: TypeAlias = Literal["error", "warning", "note"]
PROBLEMS_MAX = 500


class Code(Struct, frozen=True):
    """A kind of problem: what it means, and how an author mends it."""

    severity: Severity
    meaning: str
    fix: str


CODES: dict[str, Code] = {
    # The file
    "FILE_UNREADABLE": Code("error", "The file cannot be read.", "Check the name and that the file is UTF-8 text."),
    "DOCUMENT_TOO_LARGE": Code("error", "The file is larger than a script may be.", "Split the script in two."),
    "DOCUMENT_TOO_DEEP": Code("error", "The YAML is nested too deeply.", "Move inner blocks to topics of their own."),
    "ALIAS_LIMIT": Code("error", "YAML aliases (*name) expand to too much, or to themselves.", "Write the parts out."),
    "SYNTAX_ERROR": Code("error", "The text is not valid YAML.", "Look at the line and the one above it."),
    "DUPLICATE_KEY": Code("error", "A key stands twice in one mapping.", "Remove or rename one of the two."),
    "UNRECOGNISED_SCRIPT": Code(
        "error", "The file is in none of the forms a script can have.", "Begin with `script: name` and `phases:`."
    ),
    # The shape
    "UNKNOWN_KEY": Code("error", "This key means nothing here.", "Correct the spelling or remove it."),
    "REQUIRED_FIELD_MISSING": Code("error", "A key that must be there is not.", "Add it."),
    "TYPE_MISMATCH": Code("error", "The value is of another kind than this key takes.", "Write the kind it names."),
    "ENUM_VALUE_INVALID": Code("error", "The value is none of those allowed.", "Use one of the values it lists."),
    "CONSTRAINT_VIOLATION": Code("error", "The value is outside its limits.", "Choose one inside them."),
    "ACTION_TYPE_UNKNOWN": Code("error", "No action of this name exists.", "Use one of the actions it lists."),
    "ACTION_AMBIGUOUS": Code("error", "One list item holds two actions.", "Begin each action with its own dash."),
    # Older keys
    "DEPRECATED_KEY": Code("error", "An older key that another one replaced.", "Write the key it names instead."),
    "KEY_CONFLICT": Code("error", "Two keys say the same thing.", "Keep one of them."),
    "KEY_IGNORED": Code("warning", "This key has no effect here.", "Remove it, or move what it says."),
    # Names
    "ID_INVALID": Code(
        "error", "An id is a name without a slash.", "Leave out slashes, line breaks, a colon in front."
    ),
    "ID_DERIVED": Code("warning", "The action has no id, so it got one from its place.", "Give it `id:`."),
    "DUPLICATE_ID": Code("error", "Two nodes of one parent have the same id.", "Rename one of them."),
    "VARIABLE_NAME_INVALID": Code("error", "A variable's name must be a word.", "Use letters, digits and _."),
    "RESERVED_NAME": Code("error", "This name is the runtime's own.", "Choose another name."),
    "DUPLICATE_DECLARATION": Code("error", "A scope declares a name twice.", "Rename one, or put both into one."),
    "CHOICES_INVALID": Code("error", "A choice needs `choices`, each of them once.", "List the choices."),
    "DEFAULT_MISMATCH": Code("error", "The value does not fit the declared type.", "Change the value or the type."),
    "PATTERN_INVALID": Code("error", "The pattern is not a regular expression.", "Correct it."),
    "PATTERN_BACKTRACKS": Code(
        "warning",
        "The pattern may take time that doubles with each character; then it is given up, and the answer is refused.",
        "Repeat nothing that is repeated inside already, and begin the alternatives of a repetition differently.",
    ),
    "RANGE_INVALID": Code("error", "`min` and `max` do not fit each other or the type.", "Correct them."),
    # Flow
    "GOTO_UNKNOWN": Code("error", "There is no such topic or phase.", "Write `phase/topic`, or a topic of this phase."),
    "SKILL_UNKNOWN": Code("error", "There is no such skill.", "Name a skill of a side file that is in `use`."),
    "PARAMETER_UNKNOWN": Code("error", "The skill takes no such parameter.", "Use one of those it lists."),
    "PARAMETER_MISSING": Code("error", "The skill needs this parameter.", "Add it to `input`."),
    "RETURN_UNKNOWN": Code("error", "The skill returns no such value.", "Use one of those it lists in `returns`."),
    "GOTO_IN_SKILL": Code("error", "A skill cannot jump out of itself.", "Return a value and decide after the call."),
    "EMPTY_TEXT": Code(
        "warning",
        "The text is empty, so nothing will be said.",
        "Write the text; put quotes around one that begins with `#`, which begins a comment.",
    ),
    "NO_ACTIONS": Code("warning", "Nothing happens here.", "Add actions, or remove it."),
    # Texts, expressions, variables
    "TEMPLATE_INVALID": Code("error", "The placeholders of a text are not valid.", "Write {{ name }}."),
    "EXPRESSION_INVALID": Code("error", "The expression is not valid.", 'Write e.g. age >= 18 and city == "Paris".'),
    "MEMBER_UNKNOWN": Code(
        "error", "A built-in name has nothing called so, or is used as what it is not.", "Write what it names instead."
    ),
    "PLACEHOLDER_INVALID": Code("warning", "The braces hold no variable's name.", "Write {name}."),
    "VARIABLE_NEVER_SET": Code(
        "warning",
        "Nothing in the script gives this variable a value.",
        "Declare it, set it, or correct the spelling. A text in an expression needs quotes: \"'Paris'\".",
    ),
    "VARIABLE_UNDECLARED": Code(
        "warning",
        "The variable is set in another topic, whose variables end with it.",
        "Declare it at phase or session level.",
    ),
    "CROSS_TOPIC_READ": Code(
        "note",
        "The variable comes from another topic; only `default_scope: session` makes that work.",
        "Declare it at session level.",
    ),
    # Languages
    "LOCALE_INVALID": Code(
        "error", "The language is no tag (BCP 47).", "Write a tag such as en, de, zh-Hant or pt-BR."
    ),
    "LOCALE_TWICE": Code("error", "Two string tables are for one language.", "Put their lines into one of them."),
    "LOCALE_MISSING": Code(
        "warning",
        "The script does not say what language its own texts are in.",
        "Add `locale:` with the language of the script.",
    ),
    "ANSWER_WORDS_UNREAD": Code(
        "warning",
        "Answers to a question cannot be read in words of its language without a language model.",
        "Ask for what can be read: a choice, or digits.",
    ),
    "STRING_MISSING": Code(
        "warning", "A line has no text in one of the languages; the script's own is said.", "Add the text."
    ),
    "STRING_STALE": Code(
        "warning", "A text of the script has changed since it was translated.", "Look at the translation again."
    ),
    "STRING_UNKNOWN": Code(
        "warning", "A string table has a text for a line that the script does not have.", "Correct or remove it."
    ),
    "STRING_PLACEHOLDERS": Code(
        "error", "A translation does not read what the script's text does.", "Use the same placeholders."
    ),
    "STRING_WITHOUT_ID": Code(
        "warning",
        "The script has string tables, and texts that cannot be translated, because nothing stable names them.",
        "Give the action an `id`.",
    ),
    # Renames, and changes against an earlier version
    "RENAME_INVALID": Code(
        "error", "A rename does not name what it should.", "Write `phase/topic/action`, `phase/topic`, or the one id."
    ),
    "RENAME_TARGET_UNKNOWN": Code(
        "error", "The new id of a rename is not in the script.", "Write `old id: new id`, and mind the spelling."
    ),
    "RENAME_CYCLE": Code("error", "Renames lead in a circle.", "Remove the one that is out of date."),
    "RENAME_CONFLICT": Code("error", "Two ids were renamed to the same one.", "Keep one of them."),
    "ID_REMOVED": Code(
        "warning",
        "A phase, topic, action or choice of the earlier version is gone; sessions that stand there cannot just go on.",
        "If it was renamed, say so in `migrations:`.",
    ),
    "ID_MOVED": Code(
        "warning",
        "A topic or action stands somewhere else than in the earlier version; sessions in it begin its topic again.",
        "If it is still the same, say so in `migrations:`.",
    ),
    "ID_TYPE_CHANGED": Code(
        "warning",
        "An action is of another type than in the earlier version; sessions that stand there begin its topic again.",
        "Give the new action an id of its own.",
    ),
    "VARIABLE_CHANGED": Code(
        "warning",
        "A variable is declared otherwise than in the earlier version; values that no longer fit block a session.",
        "If it was renamed, say so in `migrations:`; else keep the type, or take a new name.",
    ),
    # What follows from the script as a whole
    "VARIABLE_MAYBE_UNSET": Code(
        "warning",
        "The variable has no value on some way that leads here.",
        "Give it a value on every way, or ask first: {% if name is defined %}, or name | default('…').",
    ),
    "VARIABLE_SHADOWED": Code("warning", "A name hides another variable of the same name.", "Rename one of the two."),
    "VARIABLE_NEVER_READ": Code("note", "Nothing reads the variable before it ends.", "Use it, or remove it."),
    "PERSONAL_COPIED": Code(
        "warning",
        "A value made of a personal one (`pii`) is kept under a name that is not personal, and so is not masked.",
        "Declare that variable with `pii: true` too.",
    ),
    "TYPE_CLASH": Code(
        "warning", "A value does not go with the type of its variable.", "Change the value or the type."
    ),
    "TYPE_MISSING": Code(
        "warning", "The script counts with an answer that has no type.", "Add `type: number` to the output."
    ),
    "TOPIC_UNREACHABLE": Code("warning", "No path leads into this topic or phase.", "Lead there, or remove it."),
    "ACTION_UNREACHABLE": Code("warning", "No path leads to this action.", "Move it up, or remove it."),
    "LOOP_ENDLESS": Code(
        "error",
        "The conversation goes round without waiting and without changing anything.",
        "Ask something on the way, or change what the condition asks.",
    ),
    "QUESTION_UNANSWERABLE": Code("error", "No answer can satisfy the question.", "Loosen the rule that it names."),
    "CONDITION_CONSTANT": Code(
        "warning",
        "The condition has the same outcome whatever the variables hold.",
        "Compare with each text: x == 'a' or x == 'b'; or remove the condition.",
    ),
    "CHOICE_WITHOUT_QUESTION": Code(
        "note", "Choices are offered, and nothing says what about.", "Add `question:`, or say something before."
    ),
    # Side files
    "USE_CYCLE": Code("error", "Two side files use each other.", "Remove one of the two from `use`."),
    "ROLE_UNKNOWN": Code("error", "There is no such role.", "Name a role of the roles file."),
    "FORM_UNKNOWN": Code("error", "There is no such form.", "Name a form of the script or of a side file in `use`."),
    "FORM_UNUSED": Code("note", "No action shows this form.", "Show it with `form: NAME`, or remove it."),
    "FIELDS_INVALID": Code("error", "A form has fields, not too many of them.", "List its `fields`."),
    "FIELD_KEY_CONFLICT": Code("error", "Two keys of a field do not go together.", "Remove the one it names."),
    "COLUMNS_INVALID": Code(
        "error",
        "A table needs columns, and nothing else has any; a column is neither computed nor a table.",
        "Write `type: table` and `columns:` with a list of fields.",
    ),
    "COMPUTED_TOO_EARLY": Code(
        "error", "A computed field uses one that is worked out after it.", "Move it below the fields that it uses."
    ),
    "EXPERIMENT_UNKNOWN": Code(
        "error", "There is no such experiment.", "Name one of the script's `experiments`, or of a side file's in `use`."
    ),
    "EXPERIMENT_UNUSED": Code(
        "warning", "No action meets this experiment, so nobody is ever in it.", "Add `experiment: NAME`, or remove it."
    ),
    "EXPERIMENT_SET": Code(
        "error", "The variable of an experiment keeps the arm that was drawn.", "Choose another name for this one."
    ),
    "ARMS_TOO_FEW": Code("error", "An experiment compares two arms or more.", "List its `arms`."),
    "ARM_UNKNOWN": Code("error", "The experiment has no such arm.", "Use one of those it lists."),
    "ARM_MISSING": Code("error", "A block says what happens in some arms and not in others.", "Add the arm."),
    "PYTHON_REFUSED": Code(
        "error", "Python in a form is never run.", "Write `computed:` with an expression, such as `price * count`."
    ),
    "TRIGGER_EMPTY": Code("error", "Nothing says when this happens.", "Write `on:` with words to listen for."),
    # Detectors
    "DETECTOR_UNKNOWN": Code("error", "There is no such detector.", "Name a detector of a side file that is in `use`."),
    "DETECTOR_WITHOUT_RULE": Code(
        "error", "Nothing tells the detector when to act.", "Give it `rules`, `patterns`, or a `define` for a model."
    ),
    "DETECTOR_WAITS": Code(
        "error",
        "A detector does what it does at once, and cannot wait, jump or call.",
        "Let it `set`, `emit`, `remember`, `say`, `show` or `end`; for more write an interrupt `on: {detector: NAME}`.",
    ),
    "ON_BUDGET_WAITS": Code(
        "error",
        "What is done when a budget is used up is done at once, and cannot wait, jump, call or ask a model.",
        "Let it `say`, `show`, `set`, `emit`, `remember` or `end`.",
    ),
    "CONTEXT_UNKNOWN": Code("error", "There is no such strategy for the context.", "Use one of those it lists."),
    "CONTEXT_OPTION": Code("error", "The strategy has no such option.", "Remove it, or take a strategy that has it."),
    "MEMORY_OFF": Code(
        "error",
        "The script remembers or recalls, but its memory is off.",
        "Take `off` out of `memory`, or remove what remembers and recalls.",
    ),
    "POLICY_TOO_LATE": Code(
        "warning",
        "A policy waits for more replies than the action takes.",
        "Lower `after`, or raise `max_rounds`.",
    ),
    "DETECTOR_EXAMPLE_FAILS": Code(
        "warning",
        "An example of a detector does not come out as it says, though it needs no model.",
        "Mend the rules or the example; `needs_model: true` where only a model can tell.",
    ),
    "MEASURE_UNKNOWN": Code("error", "The detector has no such measure.", "Name one of its `measures`."),
    "USE_NOT_FOUND": Code("error", "A file named in `use` is not there.", "Correct the name; it is relative."),
}

_GROUP_STARTS = {
    "FILE_UNREADABLE": "The file",
    "UNKNOWN_KEY": "The shape",
    "DEPRECATED_KEY": "Older keys",
    "ID_INVALID": "Names and values",
    "GOTO_UNKNOWN": "Targets and actions",
    "TEMPLATE_INVALID": "Texts, expressions, variables",
    "LOCALE_INVALID": "Languages",
    "RENAME_INVALID": "Renames, and changes since an earlier version",
    "VARIABLE_MAYBE_UNSET": "The script as a whole",
    "USE_CYCLE": "Side files",
}


def code_groups() -> dict[str, list[str]]:
    """The codes by what they are about, in the order of `CODES`."""
    groups: dict[str, list[str]] = {}
    title = ""
    for code in CODES:
        title = _GROUP_STARTS.get(code, title)
        groups.setdefault(title, []).append(code)
    return groups


class Problem(Struct, frozen=True):
    """One problem at one place."""

    code: str
    message: str
    severity: Severity
    line: int
    column: int
    file: str = ""
    path: str = ""
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.file or '<script>'}:{self.line}:{self.column} {self.code} {self.message}"


class Problems:
    """Collects what is found in one script: up to `PROBLEMS_MAX` errors, and as many milder problems beside them.

    Past that, what follows adds little; but no number of warnings may hide an error.
    """

    def __init__(self, file: str = "") -> None:
        self.file = file
        self._found: dict[tuple[str, int, int, str, str], Problem] = {}
        self._kept = {True: 0, False: 0}  # by whether they are errors
        self._softened: frozenset[str] = frozenset()

    def soften(self, codes: frozenset[str]) -> None:
        """From here on these errors count as warnings."""
        self._softened = codes

    def add(
        self,
        code: str,
        message: str,
        at: Location = NOWHERE,
        *,
        path: str = "",
        fix: str = "",
        severity: Severity | None = None,
    ) -> None:
        kind = CODES[code]
        problem = Problem(
            code=code,
            message=message,
            severity=severity or ("warning" if code in self._softened else kind.severity),
            line=max(at.line, 1),
            column=max(at.column, 1),
            file=at.file or self.file,
            path=path,
            fix=fix or kind.fix,
        )
        self._keep(problem)

    def _keep(self, problem: Problem) -> None:
        key = (problem.code, problem.line, problem.column, problem.file, problem.message)
        is_error = problem.severity == "error"
        if key not in self._found and self._kept[is_error] < PROBLEMS_MAX:
            self._kept[is_error] += 1
            self._found[key] = problem

    def soften_within(self, begin: Location, end_line: int) -> None:
        """Turn the errors of a file into warnings, from a line up to another one."""
        for key, problem in self._found.items():
            is_within = problem.file == begin.file and begin.line <= problem.line < end_line
            if is_within and problem.severity == "error":
                self._found[key] = msgspec.structs.replace(problem, severity="warning")

    def extend(self, other: "Problems") -> None:
        """Takes over what was found in another file."""
        for problem in other.sorted():
            self._keep(problem)

    def sorted(self) -> tuple[Problem, ...]:
        """All problems in the order of the file."""
        return tuple(
            sorted(self._found.values(), key=lambda p: (p.file != self.file, p.file, p.line, p.column, p.code))
        )

    @property
    def fatal(self) -> bool:
        """Whether an error keeps the script from being run."""
        return any(problem.severity == "error" for problem in self._found.values())
