"""``cuebook prompts``: what language models are told, and templates of one's own in its place."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.markup import escape

from api.cli.options import settings_of, with_settings
from api.cli.output import errors, fail, print_json, print_table, write_file
from api.cli.variables import variables_of
from api.previewing import NothingAsked, path_of, places_of, request_of
from api.settings import EXAMPLES, Settings
from runtime.ports import ModelFailed
from runtime.program import Program
from runtime.prompts.checking import faults_in
from runtime.prompts.rendering import Prompts
from runtime.prompts.templates import (
    LANGUAGES,
    NAMES,
    Name,
    PromptInvalid,
    PromptMissing,
    Source,
    Templates,
    custom_path,
    languages_for,
)
from scripts.folder import read_path
from scripts.model import LOCALE, Locale

CONTEXT_TOKENS = 8_000  # of a prompt that is only shown
_purpose = click.Choice(NAMES)


@click.group()
def prompts() -> None:
    """Shows, copies and checks what language models are told."""


@prompts.command("list", epilog="Example: cuebook prompts list --prompts my-prompts")
@click.option("--scheme", default="", help="What a script with this `template_scheme` gets [all there are].")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@with_settings("scripts", "prompts")
def list_prompts(scheme: str, as_json: bool, config: Path | None, scripts: Path | None, prompts: Path | None) -> None:
    """Lists the prompts by purpose and language, and where each comes from."""
    templates = _templates(settings_of(config, scripts=scripts, prompts=prompts))
    if scheme:
        found = [templates.find(name, each, scheme) for name in NAMES for each in _languages(templates, scheme)]
    else:
        found = [source for sources in templates.schemes.values() for source in sources]
    rows = [_row(source) for source in found]
    if as_json:
        print_json(rows)
    else:
        print_table(("PROMPT", "LANGUAGE", "SCHEME", "FILE"), [tuple(row.values()) for row in rows])


@prompts.command(
    epilog="Examples:\n\n  cuebook prompts show ask --locale zh\n\n"
    "  cuebook prompts show ask --script intake.yaml --action ask_name --reply Ana"
)
@click.argument("purpose", type=_purpose)
@click.option("--locale", metavar="TAG", help="Language of the session [the script's, else en].")
@click.option("--scheme", help="The `template_scheme` [the script's].")
@click.option(
    "--script", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Fill it for an action of a script."
)
@click.option("--action", metavar="ID", help="The action, by its id or phase/topic/id.")
@click.option("--reply", metavar="TEXT", help="What the user replied to it [nothing yet].")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="A variable; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@with_settings("scripts", "prompts")
def show(
    purpose: Name,
    locale: str | None,
    scheme: str | None,
    script: Path | None,
    action: str | None,
    reply: str | None,
    variables: Sequence[str],
    as_json: bool,
    config: Path | None,
    scripts: Path | None,
    prompts: Path | None,
) -> None:
    """Prints the template of a prompt, or the whole prompt for an action of a script.

    An action's prompt is that of its first round: without --reply before the user said anything. A value that is not
    given with --var is unset.
    """
    settings = settings_of(config, scripts=scripts, prompts=prompts)
    templates = _templates(settings)
    if locale is not None and not LOCALE.search(locale):
        fail(f"{locale!r} is no language tag; write e.g. de or pt-BR")
    if script is not None and action is not None:
        _show_rendered(Prompts(templates), purpose, script, action, (locale, scheme, reply), variables, as_json)
        return
    if script is not None or action is not None or reply is not None or variables:
        fail("--script FILE and --action ID go together, with --reply and --var beside them")
    source = _found(templates, purpose, locale or LANGUAGES[0], scheme or "")
    if as_json:
        print_json({**_row(source), "text": source.text})
        return
    errors.print(escape(str(source.path)), style="dim")
    click.echo(source.text)


def _show_rendered(
    prompts: Prompts,
    purpose: Name,
    script: Path,
    action: str,
    chosen: tuple[Locale | None, str | None, str | None],
    variables: Sequence[str],
    as_json: bool,
) -> None:
    reading = read_path(script)
    if reading.script is None:
        for problem in reading.errors:
            errors.print(f"[red]error[/] {escape(str(problem))}\n    {escape(problem.fix)}")
        sys.exit(2)
    locale, scheme, reply = chosen
    program = Program(reading.script)
    spoken = locale or program.locale
    program = program.in_locale(spoken)
    places = places_of(program.script, action)
    if len(places) != 1:
        known = ", ".join(map(path_of, places))
        fail(f"{script} has several actions {action}: {known}" if places else f"{script} has no action {action}")
    try:
        given = variables_of(variables, program.script)
        request = request_of(program, places[0], purpose, spoken, reply, given)
        if scheme is not None:
            request = msgspec.structs.replace(request, scheme=scheme)
        prompt = prompts.render(request, context_tokens_max=CONTEXT_TOKENS)
    except (NothingAsked, ModelFailed, PromptMissing) as error:
        fail(str(error))
    if as_json:
        print_json(prompt)
        return
    for message in prompt.messages:
        click.echo(f"--- {message.role} ---")
        click.echo(message.content)


@prompts.command(epilog="Example: cuebook prompts copy warm say ask --prompts my-prompts")
@click.argument("scheme")
@click.argument("purposes", nargs=-1, type=_purpose)
@click.option("--locale", metavar="TAG", help="Only for this language [en and zh].")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@with_settings("scripts", "prompts")
def copy(
    scheme: str,
    purposes: Sequence[Name],
    locale: str | None,
    force: bool,
    config: Path | None,
    scripts: Path | None,
    prompts: Path | None,
) -> None:
    """Copies the default prompts, all or some, to be changed for scripts with `template_scheme: SCHEME`."""
    settings = settings_of(config, scripts=scripts, prompts=prompts)
    if settings.prompts is None and settings.scripts == EXAMPLES:
        fail("say where to: --prompts FOLDER, or --scripts FOLDER for its `prompts`")
    if locale is not None and not LOCALE.search(locale):
        fail(f"{locale!r} is no language tag; write e.g. de or pt-BR")
    templates = Templates.load(None)
    languages = LANGUAGES if locale is None else languages_for(locale)[:1]
    try:
        copies = {
            custom_path(settings.prompts_folder, scheme, each, name): templates.find(name, each).text
            for each in languages
            for name in purposes or [name for name in NAMES if name != "data"]
        }
    except PromptInvalid as error:
        fail(str(error))
    there = [path for path in copies if path.exists()]
    if there and not force:
        fail(f"{there[0]} is there already{_more(there)}; --force overwrites")
    for path, text in copies.items():
        _make_folder(path.parent)
        write_file(f"{text}\n", path)
        errors.print(f"wrote {escape(str(path))}")
    errors.print(f"Scripts with `template_scheme: {escape(scheme)}` use them once the server starts again.")


@prompts.command(epilog="Example: cuebook prompts check my-prompts")
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@with_settings("scripts", "prompts")
def check(folder: Path | None, as_json: bool, config: Path | None, scripts: Path | None, prompts: Path | None) -> None:
    """Checks the templates of a folder [that of the settings]: file, line, and what is wrong.

    Exits with 1 where one cannot be used; a warning alone does not.
    """
    checked = folder or settings_of(config, scripts=scripts, prompts=prompts).prompts_folder
    faults = faults_in(checked) if checked.is_dir() else []
    if as_json:
        print_json(faults)
    else:
        for each in faults:
            click.echo(f"{each.file}:{each.line} {each.severity} {each.message}")
        count = sum(each.severity == "error" for each in faults)
        warnings = len(faults) - count
        errors.print(
            f"{checked}: {count} error{'s' * (count != 1)}, {warnings} warning{'s' * (warnings != 1)}", style="dim"
        )
    sys.exit(1 if any(each.severity == "error" for each in faults) else 0)


# -- shared -----------------------------------------------------------------------------------------------------------


def _templates(settings: Settings) -> Templates:
    try:
        return Templates.load(settings.prompts_folder)
    except PromptInvalid as error:
        fail(str(error))


def _languages(templates: Templates, scheme: str) -> list[str]:
    own = {source.language for source in templates.schemes.get(scheme, ())}
    return sorted({*LANGUAGES, *own})


def _found(templates: Templates, name: Name, locale: Locale, scheme: str) -> Source:
    try:
        return templates.find(name, locale, scheme)
    except PromptMissing as error:
        fail(str(error))


def _row(source: Source) -> dict[str, Any]:
    where = {"language": source.language, "scheme": source.scheme or None, "file": str(source.path)}
    return {"prompt": source.name, **where}


def _more(paths: Sequence[Path]) -> str:
    return f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{folder}: {error.strerror or 'cannot be made'}")
