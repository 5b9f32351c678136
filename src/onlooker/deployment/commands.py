"""The commands of a deployment: new, keys, task, serve, client, verify-transcript.

What speaks to a network is imported by the command that does: it comes with `pip install "onlooker[servers]"`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onlooker import config
from onlooker.errors import ConfigError


def new(
    folder: Annotated[Path, typer.Argument(help="Where to write it; must not be there yet.", show_default=False)],
) -> None:
    """Make a folder that `flwr run` takes as an app, with a job that can be planned as it is."""
    from onlooker.deployment.new import make

    make(folder)
    print(f"{folder / 'job.toml'} is what the parties will agree on; {folder / 'README.md'} has the next commands:")
    print(f"onlooker plan {folder / 'job.toml'}")
    print(f"onlooker keys {folder / 'trial'} --job {folder / 'job.toml'}")


def keys(
    folder: Annotated[Path, typer.Argument(help="Where to write them; must not be there yet.", show_default=False)],
    job: Annotated[Path, typer.Option("--job", help="The configuration whose terms are agreed on.")],
    names: Annotated[
        list[str] | None, typer.Option("--name", help="A DNS name or IP address of the servers; may be repeated.")
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Of the first server; the others have the next ones.")] = 9100,
    budget: Annotated[
        float, typer.Option("--budget", help="The epsilon that each client allows over all tasks on its data.")
    ] = 100.0,
) -> None:
    """Make all parties' keys and files for a trial on one machine; in earnest each party makes its own."""
    from onlooker.deployment.keys import write

    prepared = _with_servers(job)
    terms = prepared.agreement.terms
    servers = terms.channels[0].summation.servers
    if not 0 < port <= 65536 - servers:
        raise ConfigError(f"--port {port} must be from 1 to {65536 - servers}.")
    write(folder, terms, _text_of(prepared), names or ["127.0.0.1", "localhost"], range(port, port + servers), budget)
    print(f"{folder / 'task.toml'} is what all parties share. Start each server, and each client, such as")
    print(f"onlooker serve {folder / 'aux0.toml'}")
    print(f"onlooker client {folder / 'client0.toml'}")


def task(
    folder: Annotated[Path, typer.Argument(help="Where to write task.toml and what it names.", show_default=False)],
    job: Annotated[Path, typer.Option("--job", help="The configuration whose terms are agreed on.")],
    coordinator: Annotated[Path, typer.Option("--coordinator", help="Its public signing key, PEM.")],
    servers: Annotated[
        list[str], typer.Option("--server", metavar="KEY=https://HOST:PORT", help="One for each server, in order.")
    ],
    clients: Annotated[list[Path], typer.Option("--client", metavar="KEY", help="One for each client, in order.")],
) -> None:
    """Write the file of a task from the public keys that its parties have handed out."""
    from onlooker.deployment.parties import gathered, write_task

    prepared = _with_servers(job)
    named = [(Path(key), address) for key, _, address in (one.rpartition("=") for one in servers)]
    parties = gathered(prepared.agreement.terms, coordinator, named, clients)
    write_task(folder, prepared.agreement.terms, _text_of(prepared), parties)
    print(f"{folder / 'task.toml'} is what all parties share, with terms.toml and job.toml beside it.")
    digest = prepared.agreement.terms.hash[:12]
    print(f"terms {digest}: every party compares them with what `onlooker plan` shows for the job.")


def _with_servers(job: Path) -> config.Prepared:
    prepared = config.prepare(config.load(job), job.parent)
    if prepared.agreement.terms.channels[0].summation.servers < 2:
        raise ConfigError(f"{job.name} has no auxiliary servers; set servers.count = 2.")
    return prepared


def _text_of(prepared: config.Prepared) -> str:
    return config.as_toml(config.without_seed(prepared.configuration))


def serve(
    file: Annotated[Path, typer.Argument(help="The server's file, such as aux0.toml.", show_default=False)],
    restored: Annotated[
        bool, typer.Option("--restored", help="End all tasks here: the folder was put back from a backup.")
    ] = False,
) -> None:
    """Serve as an auxiliary server until stopped."""
    _require_extra()
    from onlooker.deployment.files import own
    from onlooker.deployment.serve import restored as end_all
    from onlooker.deployment.serve import serve as run

    started_with = own(file)
    if restored:
        print(f"{end_all(started_with.folder)} tasks are ended here; all parties have to agree on a new one.")
        return
    run(started_with, lambda sentence: print(sentence, flush=True))


def client(
    file: Annotated[Path, typer.Argument(help="The client's file, such as client0.toml.", show_default=False)],
) -> None:
    """Hold a client's data, key and budget, and answer invitations with sealed reports until stopped."""
    _require_extra()
    from onlooker.deployment.client import wait
    from onlooker.deployment.client_file import own_client

    wait(own_client(file), lambda sentence: print(sentence, flush=True))


def verify_transcript(
    file: Annotated[Path, typer.Argument(help="The server's file, such as aux0.toml.", show_default=False)],
) -> None:
    """Check, as a server's own auditor, its log, the signatures in it and that its noise is its secret's."""
    from onlooker.deployment.files import own
    from onlooker.deployment.state import kept
    from onlooker.secagg.store import Store
    from onlooker.secagg.transcript import verified

    of = own(file)
    secret, store = kept(of.folder, of.shared.task.identity, of.server)
    if not store.exists():
        print("no round was opened here.")
        return
    wrong = 0
    for one in verified(of.shared.task, of.server, secret, Store(store)):
        where = f"round {one.round}" + (f", group {one.group}" if of.shared.task.terms.groups > 1 else "")
        print(f"{where}: {one.reports} reports; this server {one.phase.value}.")
        for sentence in one.faults:
            print(f"  FAULT: {sentence}.")
        for sentence in one.unchecked:
            print(f"  not checked: {sentence}.")
        wrong += len(one.faults)
    print(f"faults: {wrong}")
    if wrong:
        raise typer.Exit(1)


def _require_extra() -> None:
    """Say in one sentence what to install, where it is not.

    Raises:
        ConfigError: if so.
    """
    try:
        import httpx
        import starlette
        import uvicorn

        del httpx, starlette, uvicorn
    except ModuleNotFoundError as error:
        raise ConfigError(f'auxiliary servers need {error.name}: pip install "onlooker[servers]".') from error
