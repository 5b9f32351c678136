"""The command: plan, run, resume, report, reproduce; new, keys, task, serve, client, verify-transcript.

What needs torch or draws a page is imported by the commands that use it: torch alone takes longer to import than most
plans take to make.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from onlooker import __version__, config, display
from onlooker._stored import packed
from onlooker.config import Prepared
from onlooker.deployment import commands
from onlooker.errors import FolderError, OnlookerError, TermsError
from onlooker.folder import RunFolder
from onlooker.privacy.forecast import forecast, telling
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.statement import find, to_json
from onlooker.privacy.topology import recorded_names
from onlooker.reproduce import reproduce

if TYPE_CHECKING:
    import torch

    from onlooker.round import Study

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Differentially private federated learning that prints one epsilon for every observer.",
)

_SETTINGS = typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Override a key of the file; may be repeated.")
_FILE = typer.Argument(help="The configuration, one TOML file.", show_default=False)
_FOLDER = typer.Argument(help="A run folder.", show_default=False)
_DEVICE = typer.Option("--device", help="Where tensors live: cpu, cuda, cuda:1.")
_ENGINE = typer.Option("--engine", metavar="NAME", help="Short for --set engine.name=NAME: vectorised, loop, ray.")


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def plan(
    file: Annotated[Path, _FILE],
    settings: Annotated[list[str] | None, _SETTINGS] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    subject: Annotated[str | None, typer.Option("--subject", help="Ask about one client, such as client:0.")] = None,
    observer: Annotated[str | None, typer.Option("--observer", help="Ask about one observer or coalition.")] = None,
) -> None:
    """Say what every observer will be able to learn, and whether anything will be learned, before any data are read."""
    with _sentences():
        prepared = _prepare(file, settings)
        terms = prepared.agreement.terms
        ledger = Ledger.plan(terms)
        observers = (observer,) if observer is not None else prepared.agreement.observers
        subjects = None if subject is None else [_client(subject, terms.clients)]
        names = prepared.agreement.group_names
        findings = find(ledger, observers, subjects, names)
        if as_json:
            print(json.dumps(to_json(ledger, findings, names), allow_nan=False))
        else:
            display.show_plan(Console(), prepared, ledger, findings)


@app.command(name="run")
def run_command(
    file: Annotated[Path, _FILE],
    settings: Annotated[list[str] | None, _SETTINGS] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder; runs/NAME by default.")] = None,
    engine: Annotated[str | None, _ENGINE] = None,
    device: Annotated[str, _DEVICE] = "cpu",
) -> None:
    """Train, and leave a run folder; its path is the last line."""
    from onlooker import run

    with _sentences():
        prepared = _prepare(file, _with_engine(settings, engine))
        place = out or _next_free(Path("runs"), file.stem)
        _refuse_used(place)
        study = config.study(prepared, _device(device))
        find(Ledger.plan(prepared.agreement.terms), prepared.agreement.observers)  # refuse now what has no price
        folder = RunFolder.create(
            place,
            config.as_toml(prepared.configuration, study.engine),
            prepared.agreement.terms,
            config.environment(prepared, study, file.stem, _warnings(prepared)),
            run.starting_tensors(study),
            run.starting_draws(study),
        )
        _go(prepared, study, folder)


@app.command()
def resume(
    folder: Annotated[Path, _FOLDER],
    settings: Annotated[list[str] | None, _SETTINGS] = None,
    engine: Annotated[str | None, _ENGINE] = None,
    device: Annotated[str, _DEVICE] = "cpu",
) -> None:
    """Go on with a run that was cut short; what decides privacy cannot change."""
    with _sentences():
        opened = RunFolder.open(folder)
        recorded, asked = (
            config.parse(opened.configuration(), options, str(folder / "run.toml"))
            for options in ((), _with_engine(settings, engine))
        )
        prepared = config.prepare(asked, folder)
        _refuse_other_terms(opened, prepared)
        if others := config.changed(recorded, asked):
            raise TermsError(f"{folder} would be another run, not a resumed one, with {'; '.join(others)}.")
        study = config.study(prepared, _device(device))
        display.show_where(Console(), opened)
        _go(prepared, study, opened)


@app.command()
def export(
    folder: Annotated[Path, _FOLDER],
    to: Annotated[str, typer.Option("--to", help="Whose view, such as client:0.")],
    out: Annotated[Path | None, typer.Option("--out", help="The file; client-I.safetensors by default.")] = None,
) -> None:
    """Write what one client holds after a run, its model and those of its groups, and nothing else; prints the file."""
    from onlooker.stored import view_of

    with _sentences():
        opened = RunFolder.open(folder)
        prepared = config.prepare(config.parse(opened.configuration(), (), str(folder / "run.toml")), folder)
        _refuse_other_terms(opened, prepared)
        client = _client(to, opened.terms().clients, "--to")
        place, commit = out or Path(f"client-{client}.safetensors"), opened.commit()
        try:
            view = view_of(prepared.method, prepared.model, commit, client, _group_names(opened))
            place.write_bytes(packed(view, commit.round))
        except OSError as error:
            raise FolderError(
                f"{place} cannot be written: {error.strerror or error}; name another by --out."
            ) from error
        print(place)


@app.command(name="report")
def report_command(
    folder: Annotated[Path, _FOLDER],
    out: Annotated[Path | None, typer.Option("--out", help="The page; DIR/report.html by default.")] = None,
) -> None:
    """Write one self-contained HTML page about a run; its path is the last line."""
    from onlooker import report

    with _sentences():
        print(report.write(RunFolder.open(folder), out))


def main() -> None:
    """The entry point: configurations may name functions of modules beside them."""
    sys.path.insert(0, str(Path.cwd()))
    app()


def _go(prepared: Prepared, study: Study, folder: RunFolder) -> None:
    from onlooker import run

    console = Console()
    try:
        display.follow(console, prepared, folder, run.simulate(study, folder))
    except (KeyboardInterrupt, BrokenPipeError, SystemExit) as stopped:  # rich exits where its pipe is closed
        why = "stopped" if isinstance(stopped, KeyboardInterrupt) else "stopped, for nobody reads what it prints"
        _say(f"{why}; `onlooker resume {folder.path}` goes on from the last finished round.")
        _close_output()
        raise typer.Exit(130) from None
    from onlooker import report  # not before the first round, which does not need it

    page = report.write(folder)
    findings = find(folder.ledger(), prepared.agreement.observers, names=_group_names(folder))
    display.show_findings(console, folder.ledger(), findings)
    display.show_printed(console, prepared)
    if study.source.repeatable:
        console.print(f"Seed {prepared.configuration.task.seed}: a study, which protects nobody.", highlight=False)
    display.say(console, f"report {page}")
    print(folder.path)


def _group_names(folder: RunFolder) -> tuple[str, ...]:
    """As the run began with them: a file of groups may have changed since, or be gone."""
    return recorded_names(folder.environment().get("groups"), folder.terms().groups)


def _refuse_other_terms(opened: RunFolder, prepared: Prepared) -> None:
    from onlooker import run

    changed = run.difference(opened.terms(), prepared.agreement.terms)
    if changed:
        raise TermsError(f"{opened.path} was begun under other terms, which cannot change: {'; '.join(changed)}.")


def _prepare(file: Path, settings: list[str] | None) -> Prepared:
    prepared = config.prepare(config.load(file, settings or ()), file.parent)
    for warning in _warnings(prepared):
        _say(f"warning: {warning}")
    return prepared


def _with_engine(settings: list[str] | None, engine: str | None) -> list[str]:
    return [*(settings or ()), *(() if engine is None else (f"engine.name={engine}",))]


def _warnings(prepared: Prepared) -> list[str]:
    terms = prepared.agreement.terms
    expected = [one for one in (forecast(terms), telling(terms)) if one is not None]
    return [*config.warnings_of(prepared), *(one.sentence() for one in expected if one.drowned)]


@contextmanager
def _sentences() -> Generator[None]:
    """Turn every error that a user can mend into one sentence and exit status 2."""
    try:
        yield
    except OnlookerError as error:
        _say(f"error: {error}")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        _say("stopped; no round was begun.")
        raise typer.Exit(130) from None
    except BrokenPipeError:
        _close_output()
        raise typer.Exit(0) from None


def _close_output() -> None:
    """Let what is left to print go nowhere: a pipe that was closed would raise again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app.command(name="reproduce")(_sentences()(reproduce))
app.command(name="new")(_sentences()(commands.new))
app.command(name="keys")(_sentences()(commands.keys))
app.command(name="task")(_sentences()(commands.task))
app.command(name="serve")(_sentences()(commands.serve))
app.command(name="client")(_sentences()(commands.client))
app.command(name="verify-transcript")(_sentences()(commands.verify_transcript))


def _say(sentence: str) -> None:
    print(f"onlooker: {sentence}".replace("\n", "\\n"), file=sys.stderr)


def _client(name: str, clients: int, option: str = "--subject") -> int:
    found = re.fullmatch(r"client:(0|[1-9][0-9]{0,8})", name)
    if not found or int(found[1]) >= clients:
        raise TermsError(f'{option} "{name}" is not known; name client:0 to client:{clients - 1}.')
    return int(found[1])


def _device(name: str) -> torch.device:
    import torch

    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError) as error:
        raise TermsError(f'--device "{name}" cannot be used: {str(error).splitlines()[0]}') from error
    return device


def _next_free(parent: Path, name: str) -> Path:
    places = (parent / (name if number == 1 else f"{name}-{number}") for number in range(1, 10**6))
    return next(place for place in places if not place.exists())


def _refuse_used(place: Path) -> None:
    try:
        found = place.resolve()
        used = found.exists() and (not found.is_dir() or any(found.iterdir()))
    except (OSError, RuntimeError) as error:
        raise FolderError(f"the run folder {place} cannot be looked at: {error}; name another by --out.") from error
    if used:
        raise FolderError(f"the run folder {place} exists already; name another by --out, or resume it.")
