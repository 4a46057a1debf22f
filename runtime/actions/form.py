"""`form`: several typed fields that are filled in at once, by a client that renders them or in plain text.

The form as sent decides: a missing field keeps the value that the form showed (the variable's current value, else
the default), a field sent empty is cleared. Valid values are not asked for again.
"""

from collections.abc import Collection, Mapping

import msgspec

from runtime.actions import ask, form_answers
from runtime.actions.form_answers import FieldFault, label_of
from runtime.actions.outcomes import DONE, Outcome, Waits, after_failure
from runtime.actions.outputs import present_choices, with_values
from runtime.answers.reply_values import AnswerRefused, is_blank
from runtime.state.form_view import RenderedColumn, RenderedField, RenderedForm
from runtime.state.state import Wait
from runtime.turn.context import ActionFailed, TurnContext
from runtime.turn.model_requests import complete
from scripts.expressions.values import Value, ValueRefused, is_given, shorten, to_value
from scripts.model.actions import Form, rounds_of
from scripts.model.base import Expression
from scripts.model.script import FormDefinition, FormField, as_output, kind_of
from scripts.model.variables import constant


def form(run: TurnContext, action: Form) -> Outcome:
    """Show the form, with its text if it has one. Raises PlaceLost."""
    run.progress.prompt = run.text(run.program.forms[action.sheet].text)
    return _show(run, action, run.progress.prompt)


async def answer_form(run: TurnContext, action: Form, reply: str, sent: Mapping[str, Value] | None) -> Outcome:
    """Handle a sent form, or a reply in plain text."""
    if sent is None and is_blank(reply):
        return _show(run, action, run.progress.said_last)
    fields = _fillable(form_of(run, action))
    wanted = [field for field in fields if field.name in run.progress.errors] or [
        field for field in fields if field.name not in run.progress.values
    ]
    run.progress.round += 1
    run.progress.replies.append(reply)
    found = dict(sent) if sent is not None else form_answers.read_fields(run, fields, reply, wanted)
    before = dict(run.progress.values)
    errors = _keep(run, fields, found)
    missing = [field for field in _missing(run, fields) if field.name not in errors]
    if sent is None and missing and not errors:
        errors = await _extract(run, action, fields, missing, reply)
        missing = [field for field in _missing(run, fields) if field.name not in errors]
    if not errors and not missing and (found or sent is not None or run.progress.values != before):
        return _finish(run, action, fields)
    errors |= dict.fromkeys((field.name for field in missing), run.phrase("required"))
    run.progress.errors = errors
    if run.progress.round >= rounds_of(action):
        return _end_rounds(run, action, fields)
    run.progress.complaint = _complaint(run, action, fields, missing)
    return _show(run, action, run.progress.complaint)


def leave_open(run: TurnContext, action: Form) -> bool:
    """Leave a form that the user does not want to fill in, unless a field is required."""
    fields = _fillable(form_of(run, action))
    if _missing(run, fields):
        return False
    _finish(run, action, fields)
    return True


def _fillable(sheet: FormDefinition) -> tuple[FormField, ...]:
    return tuple(field for field in sheet.fields if field.computed is None)


def form_of(run: TurnContext, action: Form) -> FormDefinition:
    """Return the form of an action; limits and defaults that are expressions have their present values.

    Raises PlaceLost, and ActionFailed for a default.
    """
    sheet = run.program.forms[action.sheet]
    if not any(field.expressions for field in sheet.fields):
        return sheet
    place = (*run.home(), action.id)
    now = run.computed_forms.get(place)
    if now is None:
        fields = tuple(_with_values(run, field) for field in sheet.fields)
        now = run.computed_forms[place] = msgspec.structs.replace(sheet, fields=fields)
    return now


def _with_values(run: TurnContext, field: FormField) -> FormField:
    """Return a field with its present limits and default; a default that the field refuses is none, with a warning."""
    output = with_values(run, msgspec.structs.replace(as_output(field), choice_list=()))
    choices = present_choices(run, field.choice_list)
    now = msgspec.structs.replace(
        field,
        type=field.type if choices or field.type != "choice" else "text",
        choice_list=choices,
        min=output.min,
        max=output.max if isinstance(field.max, Expression) else field.max,
        default=output.default,
        columns=tuple(_with_values(run, column) for column in field.columns),
    )
    default = constant(now.default)
    if not isinstance(field.default, Expression) or default is None or _fits(run, now, default):
        return now
    run.warn(
        "expression_failed", f"line {field.default.at.line}: `{field.name}` refuses the default {shorten(default)}"
    )
    return msgspec.structs.replace(now, default=None)


# -- values -----------------------------------------------------------------------------------------------------------


def _value_shown(run: TurnContext, field: FormField) -> Value:
    """Return the value shown in a field: the user's, else the variable's if it is valid, else the default."""
    if field.name in run.progress.values:
        return run.progress.values[field.name]
    found = run.scopes.find(field.name)
    if found is not None and is_given(found[1]) and _fits(run, field, found[1]):
        return found[1]
    return constant(field.default)


def _fits(run: TurnContext, field: FormField, value: Value) -> bool:
    """Return whether a variable's value may be shown in a field; `validate` is checked for the form as a whole."""
    match kind_of(field):
        case "multichoice":
            return isinstance(value, list) and (not field.choices or all(each in field.choices for each in value))
        case "table":
            names = {column.name for column in field.columns}
            return isinstance(value, list) and all(isinstance(row, dict) and row.keys() <= names for row in value)
        case _:
            return not isinstance(form_answers.fitting(run, field, value), AnswerRefused)


def _keep(run: TurnContext, fields: tuple[FormField, ...], values: Mapping[str, Value]) -> dict[str, str]:
    """Store the accepted values; return the errors of the others, by field."""
    errors: dict[str, str] = {}
    pending = set(values)
    for field in fields:
        if field.name not in values:
            continue
        by_itself = msgspec.structs.replace(field, validate=())
        value = form_answers.accept(run, by_itself, values[field.name], _whole(run, fields, pending))
        if not isinstance(value, FieldFault) and form_answers.unfit(run, field.name, value):
            value = FieldFault(form_answers.words_for(run, field, "invalid"))
        pending.remove(field.name)
        if isinstance(value, FieldFault):
            errors[field.name] = value.message
            run.progress.values.pop(field.name, None)
        else:
            run.progress.values[field.name] = value
    return errors | _validation_errors(run, fields, errors)


def _whole(run: TurnContext, fields: tuple[FormField, ...], without: Collection[str]) -> dict[str, Value]:
    shown = {field.name: _value_shown(run, field) for field in fields if field.name not in without}
    return {name: value for name, value in shown.items() if is_given(value)}


def _validation_errors(run: TurnContext, fields: tuple[FormField, ...], errors: Mapping[str, str]) -> dict[str, str]:
    """Return the error of each `validate` that fails; one that reads an open field is not evaluated yet."""
    whole = _whole(run, fields, errors)
    still_open = {field.name for field in _missing(run, fields)} | errors.keys()
    found: dict[str, str] = {}
    for field in fields:
        for each in field.validate if field.name in whole else ():
            if not still_open & each.unless.compiled.reads and not run.holds(each.unless, whole):
                own = run.text(each.say, whole) if each.say is not None else None
                found[field.name] = form_answers.words_for(run, field, "invalid") if own is None else own
                run.progress.values.pop(field.name, None)
                break
    return found


async def _extract(
    run: TurnContext, action: Form, fields: tuple[FormField, ...], missing: list[FormField], reply: str
) -> dict[str, str]:
    """Store the values that the model finds in a plain reply for the missing fields; return the errors, by field."""
    outputs = tuple(as_output(field) for field in missing if kind_of(field) not in {"table", "multichoice"})
    if not outputs:
        return {}
    task = run.wording(run.program.forms[action.sheet].text)
    answered = await complete(run, "extract", action, task, outputs=outputs, reply=reply)
    found = ask.parse_model_values(run, outputs, answered)
    try:
        values = {name: to_value(value) for name, value in found.items()}
    except ValueRefused:  # the model's values are over the limits; the fields stay missing
        return {}
    return _keep(run, fields, values)


def _missing(run: TurnContext, fields: tuple[FormField, ...]) -> list[FormField]:
    return [field for field in fields if field.required and not form_answers.is_filled(_value_shown(run, field))]


def wait_for_form(run: TurnContext, action: Form) -> Wait:
    """Return the wait with its form rendered again: the form, or values that it shows, may have changed."""
    return Wait("form", form=_render(run, form_of(run, action)))


# -- texts and rendering ----------------------------------------------------------------------------------------------


def _show(run: TurnContext, action: Form, text: str) -> Outcome:
    run.say(text)
    return Waits(wait_for_form(run, action))


def _complaint(run: TurnContext, action: Form, fields: tuple[FormField, ...], missing: list[FormField]) -> str:
    """Return the errors by label, for clients that show no fields: the action's own text, or else the runtime's."""
    if action.invalid is not None:
        return run.text(action.invalid)
    errors = run.progress.errors
    absent = tuple(label_of(run, field) for field in missing)
    lines = [
        f"{label_of(run, field)}: {errors[field.name]}"
        for field in fields
        if field.name in errors and field not in missing
    ]
    if absent:
        lines.append(run.phrase("missing", absent))
    if not lines:
        lines.append(run.phrase("unread", tuple(f"{label_of(run, field)}: …" for field in fields)))
    return "\n".join(lines)


def _render(run: TurnContext, sheet: FormDefinition) -> RenderedForm:
    return RenderedForm(
        id=sheet.id,
        title=run.text(sheet.title),
        fields=tuple(_render_field(run, field) for field in sheet.fields),
        errors=run.progress.errors,
    )


def _render_field(run: TurnContext, field: FormField) -> RenderedField:
    columns = tuple(_render_column(run, column, constant(column.default)) for column in field.columns)
    column = _render_column(run, field, _value_shown(run, field))
    fields = {name: getattr(column, name) for name in RenderedColumn.__struct_fields__}
    return RenderedField(**fields, computed=field.computed is not None, columns=columns)


def _render_column(run: TurnContext, field: FormField, value: Value) -> RenderedColumn:
    return RenderedColumn(
        name=field.name,
        label=label_of(run, field),
        type=kind_of(field),
        choices=field.choices,
        labels=field.labels,
        required=field.required,
        placeholder=run.text(field.placeholder),
        value=value,
        pattern=field.pattern,
        min=constant(field.min),
        max=constant(field.max),
    )


# -- the end ----------------------------------------------------------------------------------------------------------


def _finish(run: TurnContext, action: Form, fields: tuple[FormField, ...]) -> Outcome:
    """Write the user's values, defaults for missing ones, and then the computed fields."""
    values = run.progress.values
    for field in fields:
        found = run.scopes.find(field.name)
        has_value = found is not None and is_given(found[1])
        if field.name in values:
            if has_value or is_given(values[field.name]):
                run.assign(field.name, values[field.name], "user", as_output(field))
        elif field.default is not None and (found is None or not has_value or not _fits(run, field, found[1])):
            run.assign(field.name, field.default, "default", as_output(field))
    for field in run.program.forms[action.sheet].fields:
        if field.computed is not None:
            _compute(run, field, field.computed)
    return DONE


def _compute(run: TurnContext, field: FormField, expression: Expression) -> None:
    """Compute a field; if that fails because a field was left empty, it stays unset and the form continues."""
    try:
        value = run.value(expression)
    except ActionFailed as error:
        run.warn("expression_failed", str(error))
        value = None
    outcome = form_answers.fitting(run, field, value)
    reason = outcome.reason if isinstance(outcome, AnswerRefused) else form_answers.unfit(run, field.name, outcome)
    if not is_given(value) and not reason:
        reason = _missing_reason(run, expression)
    if reason:
        run.warn("value_missing", f"`{field.name}` stays unset: {reason}")
    value = None if reason or isinstance(outcome, AnswerRefused) else outcome
    run.assign(field.name, value, "script", as_output(field))


def _missing_reason(run: TurnContext, expression: Expression) -> str:
    """Return which variables of an expression have no value, as a reason; empty if all have one."""
    reads = sorted(expression.compiled.reads)
    found = ((name, run.scopes.find(name)) for name in reads)
    names = [f"`{name}`" for name, each in found if each is None or not is_given(each[1])]
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no value" if names else ""


def _end_rounds(run: TurnContext, action: Form, fields: tuple[FormField, ...]) -> Outcome:
    """End a form whose rounds are used up: write the valid values and follow the policy."""
    for field in fields:
        if field.required and not form_answers.is_filled(run.progress.values.get(field.name, field.name)):
            del run.progress.values[field.name]  # cleared, though it is required
        shown = _value_shown(run, field)
        if field.name in run.progress.errors and field.default is None and not form_answers.is_filled(shown):
            run.warn_missing(field.name, "no valid answer within the rounds")
    _finish(run, action, fields)
    return after_failure(run, action)
