"""``cuebook prompts``: list, show, copy and check prompt templates."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.markup import escape

from api.cli.options import EXISTING_FILE, EXISTING_FOLDER, in_json, json_option, with_settings
from api.cli.output import end, errors, fail, failing, make_folder, print_json, print_table, write_text
from api.cli.script_arguments import check_locale, script_of, variables_of
from api.settings import EXAMPLES, Settings
from api.testing.prompt_preview import NoPromptFound, PromptPlace, path_of, places_of, request_of
from runtime.prompts.rendering import Prompts
from runtime.prompts.template_checks import faults_in
from runtime.prompts.templates import (
    LANGUAGES,
    NAMES,
    PARTS,
    Name,
    PromptInvalid,
    PromptMissing,
    Templates,
    TemplateSource,
    custom_path,
    languages_for,
)
from runtime.state.ports import ModelFailed
from runtime.state.program import Program
from scripts.expressions.values import count_text
from scripts.model.script import Script
from scripts.parse.folder import read_path

CONTEXT_TOKENS = 8_000  # size limit of a prompt that is only shown
_purpose = click.Choice(NAMES)


@click.group()
def prompts() -> None:
    """List, show, copy and check prompt templates.

    Use it to see what Cuebook sends to language models, and to replace a default prompt by your own.
    """


@prompts.command("list", epilog="Example: cuebook prompts list --prompts my-prompts")
@click.option("--scheme", default="", help="Only the prompts of scripts with this `template_scheme` [all].")
@json_option(lambda rows: print_table(("PROMPT", "LANGUAGE", "SCHEME", "FILE"), [tuple(row.values()) for row in rows]))
@with_settings("scripts", "prompts")
def list_prompts(settings: Settings, scheme: str) -> list[dict[str, Any]]:
    """List the prompts by purpose and language, with the file of each."""
    templates = _templates(settings)
    found = [source for sources in templates.schemes.values() for source in sources]
    if scheme:
        languages = sorted({*LANGUAGES, *(source.language for source in templates.schemes.get(scheme, ()))})
        found = [templates.find(name, each, scheme) for name in NAMES for each in languages]
    return [_row(source) for source in found]


@prompts.command(
    epilog="Examples:\n\n  cuebook prompts show ask --locale zh\n\n"
    "  cuebook prompts show ask --script intake.yaml --action ask_name --reply Ana"
)
@click.argument("purpose", type=_purpose)
@click.option("--locale", metavar="TAG", help="Language of the session [the script's, else en].")
@click.option("--scheme", help="The `template_scheme` [the script's].")
@click.option("--script", type=EXISTING_FILE, help="Render the prompt for an action of this script.")
@click.option("--action", metavar="ID", help="The action: its id, or phase/topic/id.")
@click.option("--reply", metavar="TEXT", help="The user's reply to the action [no reply yet].")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable; may be repeated.")
@in_json
@with_settings("scripts", "prompts")
def show(
    settings: Settings,
    purpose: Name,
    locale: str | None,
    scheme: str | None,
    script: Path | None,
    action: str | None,
    reply: str | None,
    variables: Sequence[str],
    as_json: bool,
) -> None:
    """Print the template of a prompt, or the rendered prompt for an action of a script.

    The rendered prompt is that of the action's first round: without --reply, before the first message of the user. A
    variable that is not set with --var is unset.
    """
    templates = _templates(settings)
    check_locale(locale)
    if script is not None and action is not None:
        program = Program(script_of(read_path(script)))
        language = locale or program.locale
        program = program.in_locale(language)
        place, values = _place(program.script, action, script), variables_of(variables, program.script)
        with failing(NoPromptFound, ModelFailed, PromptMissing):
            request = request_of(program, place, purpose, language, reply, values)
            if scheme is not None:
                request = msgspec.structs.replace(request, scheme=scheme)
            prompt = Prompts(templates).render(request, context_tokens_max=CONTEXT_TOKENS)
        if as_json:
            print_json(prompt)
            return
        for message in prompt.messages:
            click.echo(f"--- {message.role} ---")
            click.echo(message.content)
        return
    if script is not None or action is not None or reply is not None or variables:
        fail("--script FILE and --action ID require each other; --reply and --var require both")
    with failing(PromptMissing):
        source = templates.find(purpose, locale or LANGUAGES[0], scheme or "")
    if as_json:
        print_json({**_row(source), "text": source.text})
        return
    errors.print(escape(str(source.path)), style="dim")
    click.echo(source.text)


def _place(script: Script, action: str, file: Path) -> PromptPlace:
    """Return the place of an action; end the command if it has not exactly one."""
    places = places_of(script, action)
    if len(places) != 1:
        known = ", ".join(map(path_of, places))
        fail(f"{file} has several actions {action}: {known}" if places else f"{file} has no action {action}")
    return places[0]


@prompts.command(epilog="Example: cuebook prompts copy warm say ask --prompts my-prompts")
@click.argument("scheme")
@click.argument("purposes", nargs=-1, type=_purpose)
@click.option("--locale", metavar="TAG", help="Only for this language [en and zh].")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@with_settings("scripts", "prompts")
def copy(settings: Settings, scheme: str, purposes: Sequence[Name], locale: str | None, force: bool) -> None:
    """Copy default prompts, all or the named ones, to customise them.

    Scripts with `template_scheme: SCHEME` use the copies.
    """
    if settings.prompts is None and settings.scripts == EXAMPLES:
        fail("name the target folder: --prompts FOLDER, or --scripts FOLDER for its subfolder `prompts`")
    check_locale(locale)
    templates = Templates.load(None)
    languages = LANGUAGES if locale is None else languages_for(locale)[:1]
    with failing(PromptInvalid):
        copies = {
            custom_path(settings.prompts_folder, scheme, each, name): templates.find(name, each).text
            for each in languages
            for name in purposes or [name for name in NAMES if name not in PARTS]
        }
    existing = [path for path in copies if path.exists()]
    if existing and not force:
        more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        fail(f"{existing[0]} already exists{more}; --force overwrites it")
    for path, text in copies.items():
        make_folder(path.parent)
        write_text(f"{text}\n", path)
        errors.print(f"wrote {escape(str(path))}")
    errors.print(f"Scripts with `template_scheme: {escape(scheme)}` use them after a restart of the server.")


@prompts.command(epilog="Example: cuebook prompts check my-prompts")
@click.argument("folder", required=False, type=EXISTING_FOLDER)
@in_json
@with_settings("scripts", "prompts")
def check(settings: Settings, folder: Path | None, as_json: bool) -> None:
    """Check the templates in a folder [that of the settings]; report each problem with file and line.

    Exits with 1 if a template cannot be used; warnings alone do not change the exit code.
    """
    checked = folder or settings.prompts_folder
    faults = faults_in(checked) if checked.is_dir() else []
    if as_json:
        print_json(faults)
    else:
        for each in faults:
            click.echo(f"{each.file}:{each.line} {each.severity} {each.message}")
        count = sum(each.severity == "error" for each in faults)
        warnings = len(faults) - count
        errors.print(f"{checked}: {count_text(count, 'error')}, {count_text(warnings, 'warning')}", style="dim")
    end(1 if any(each.severity == "error" for each in faults) else 0)


# -- shared -----------------------------------------------------------------------------------------------------------


def _templates(settings: Settings) -> Templates:
    with failing(PromptInvalid):
        return Templates.load(settings.prompts_folder)


def _row(source: TemplateSource) -> dict[str, Any]:
    where = {"language": source.language, "scheme": source.scheme or None, "file": str(source.path)}
    return {"prompt": source.name, **where}
