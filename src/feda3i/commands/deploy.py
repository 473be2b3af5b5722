"""``feda3i deploy``: a real consortium over the network, step by step."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from feda3i.commands.app import Overrides, new_app
from feda3i.errors import RecipeError, RunError
from feda3i.values import split_names

app = new_app(help="Run a consortium over the network: keys and certificates, checks, runs.")


@app.command()
def init(
    out: Annotated[Path, typer.Argument(help="Folder to make.")],
    sites: Annotated[str, typer.Option(help="Names of the sites, separated by commas: A,B,C.")],
    address: Annotated[
        str, typer.Option(help="host:port at which sites reach the server's proxy.")
    ] = "localhost:8443",
    server: Annotated[
        Path | None, typer.Option(help="Where server/ will be in use; default: where it is now.")
    ] = None,
    runs: Annotated[
        Path | None, typer.Option(help="Folder of run folders on the server; default: OUT/runs.")
    ] = None,
) -> None:
    """Write certificates, one key per site, start scripts and guides for a consortium."""
    need_flower()
    from feda3i.flower.deploy_folders import ConsortiumSettings, write_consortium

    settings = ConsortiumSettings.of(
        sites=split_names(sites),
        address=address,
        server=(server or out / "server").absolute(),
        runs=(runs or out / "runs").absolute(),
    )
    write_consortium(out, settings)
    print(f"server     {out / 'server'}   start.sh, nginx.conf; keep server.key there")
    for site in settings.sites:
        print(f"site       {out / 'sites' / site}   send it to {site} over a channel you trust")
    print(f"authority  {out / 'authority'}   ca.key: keep it offline")
    print(f"next       read {out / 'GUIDE.md'}")


@app.command()
def add(
    site: Annotated[str, typer.Argument(help="Name of the new site.")],
    to: Annotated[Path, typer.Option(help="Folder of 'feda3i deploy init'.")],
) -> None:
    """Write the folder of a site that joins later."""
    need_flower()
    from feda3i.flower.deploy_folders import add_site

    print(f"site  {add_site(to, site)}   send it to {site} over a channel you trust")
    print("next  copy server/keys and server/server.env to the server; the key is registered when")
    print("      the server or the next run is started")


@app.command()
def check(folder: Annotated[Path, typer.Argument(help="This site's folder.")] = Path(".")) -> None:
    """Verify data, key, versions, clock and connection of this site before round 1."""
    need_flower()
    from feda3i.flower.deploy_check import check_site

    if not (folder / "site.toml").is_file():
        raise RecipeError(f"'{folder}' is not a site's folder: it has no site.toml")
    wrong = 0
    for name, is_fine, text in check_site(folder):
        print(f"{'ok   ' if is_fine else 'WRONG'}  {name:<11}{text}")
        wrong += not is_fine
    if wrong:
        raise RunError(f"{wrong} things to fix before this site can take part")


@app.command()
def run(
    recipe: Annotated[str, typer.Argument(help="A .toml file or the name of a built-in recipe.")],
    overrides: Overrides = None,
    server: Annotated[Path, typer.Option(help="The server's folder.")] = Path("server"),
    name: Annotated[str, typer.Option(help="Name of the run folder.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Continue that run.")] = False,
) -> None:
    """Start a run at the server, show its rounds, and wait for its end."""
    need_flower()
    from feda3i.commands.report import report_at_end
    from feda3i.commands.run import load_named
    from feda3i.engine.notes import final_notes
    from feda3i.flower import deploy_control as control
    from feda3i.flower.node import check_recipe, read_env

    loaded, own_name = load_named(recipe, overrides or [])
    check_recipe(loaded)
    name = name or own_name
    folder = Path(read_env(server)["FEDA3I_RUNS"]) / name
    if not resume and folder.exists():
        raise RunError(f"'{folder}' exists; continue it (--resume) or choose another --name")
    control.register_keys(server)  # of sites that were added since the server was started
    number = control.start_run(server, loaded, name, is_resumed=resume)
    print(f"run    {number}\nfolder {folder}", flush=True)
    try:
        for event in control.follow(server, number, folder):
            print(control.round_line(event), flush=True)
    except KeyboardInterrupt:
        stop = f"flwr stop {number} {control.SUPERLINK}"
        print(f"the run continues; stop it with: {stop}", file=sys.stderr)
        raise
    print(f"sha256 {(folder / 'DONE').read_text('utf-8').strip()}")
    if report := report_at_end([folder], folder):
        print(f"report {report}")
    for note in final_notes(folder / "events.jsonl"):
        print(f"NOTE   {note}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder to make.")] = Path("demo-flower"),
    sites: Annotated[int, typer.Option(min=2, max=16)] = 4,
    method: Annotated[str, typer.Option(help="Any method.")] = "feda3i",
) -> None:
    """Play a consortium on this machine as real processes and compare with the local engine."""
    need_flower()
    from feda3i.flower.deploy_demo import play_trial

    play_trial(out, sites, method)


def need_flower() -> None:
    """Raise ``RunError`` with the way out if the extra is not installed."""
    if find_spec("flwr") is None:
        raise RunError("the network engine needs Flower: pip install 'feda3i[flower]'")
