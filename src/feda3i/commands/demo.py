"""``feda3i demo``: noisy annotators; FedAvg, FedA3I, redrawn masks and perfect ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feda3i.commands.app import Quiet

if TYPE_CHECKING:
    from feda3i.core.cases import Federation
    from feda3i.engine.run import Result
    from feda3i.recipe import Recipe

ROWS = {
    "fedavg": "FedAvg on the noisy masks",
    "feda3i": "FedA3I on the noisy masks",
    "redraw": "FedAvg on masks redrawn by the sites",
    "clean": "FedAvg on perfect masks (ceiling)",
}
SHOWN = 6  # cases of each method in the report: they are synthetic, so anybody may see them


def demo(
    out: Annotated[Path, typer.Option(help="Folder to make.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quiet: Quiet = False,
) -> None:
    """See it work in minutes: synthetic cases, several sites, a table and pictures."""
    from feda3i.commands.report import report_at_end
    from feda3i.commands.run import free_folder
    from feda3i.engine.events import read_events
    from feda3i.recipe import load
    from feda3i.simulation.annotation import true_offsets
    from feda3i.simulation.federation import federation_of

    base = load("demo", [f"seed={seed}"])
    folder = free_folder(out.parent, out.name)
    federation = federation_of(base)
    mu = true_offsets(federation.notes)
    larger, size = sum(value > 0 for value in mu.values()), federation.train.shape[0]
    print(
        f"{len(federation.sites)} sites with {len(federation.train)} cases of {size} x {size} px "
        f"({base.data.name}), {len(federation.test)} test cases with perfect masks.\n"
        f"Their annotators draw differently: {larger} too large, {len(mu) - larger} too small, "
        f"by up to {max(abs(value) for value in mu.values()):.1f} px."
    )
    try:
        results = _runs(base, folder, federation, quiet)
    except KeyboardInterrupt:
        print(f"\ninterrupted; finished runs are in {folder}", file=sys.stderr)
        sys.exit(130)
    print("\n" + _table(results))
    rounds = read_events(results["feda3i"].path / "events.jsonl", "round")
    if surveys := [event["survey"] for event in rounds if event.get("survey")]:
        print("\n" + _groups(surveys[-1], mu))
    for method, result in results.items():
        for note in result.notes:
            print(f"NOTE  {ROWS[method]}: {note}")
    print(f"\nThe runs are in {folder}.")
    if report := report_at_end([result.path for result in results.values()], folder, SHOWN):
        print(f"Look at it all on one page: {report}")


def _runs(base: Recipe, folder: Path, federation: Federation, quiet: bool) -> dict[str, Result]:
    """Run every method; FedA3I continues from FedAvg's warm-up, equal to its own."""
    import tempfile

    from feda3i.bench.branching import last_shared, run_or_branch
    from feda3i.commands.run import listener
    from feda3i.recipe import load

    results, shared_rounds = {}, [last_shared(base)]
    with tempfile.TemporaryDirectory(prefix="feda3i-demo-") as shared:
        for method in ROWS:
            chosen = load("demo", [f"seed={base.seed}", f"method={method}"])
            places = folder / method, federation, Path(shared)
            results[method] = run_or_branch(chosen, *places, shared_rounds, listener(quiet))
    return results


def _table(results: dict[str, Result]) -> str:
    from feda3i.engine.events import read_events

    lines = [
        "| method | Dice, last round | Dice, mean of last five | IoU | HD95 (px) |",
        "|---|---|---|---|---|",
    ]
    for method, result in results.items():
        rounds = read_events(result.path / "events.jsonl", "round")
        last = [e["dice"] for e in rounds if e.get("dice") is not None][-5:]
        scores = result.scores
        lines.append(
            f"| {ROWS[method]} | {scores['dice']:.4f} | {sum(last) / len(last):.4f} "
            f"| {scores['iou']:.4f} | {scores.get('hd95', float('nan')):.2f} |"
        )
    return "\n".join(lines)


def _groups(survey: dict[str, Any], mu: dict[str, float]) -> str:
    labels = survey["parts"][0]["grouping"]["labels"]
    larger, smaller = labels.count("larger"), labels.count("smaller")
    pairs = zip(labels, (mu[site] for site in survey["sites"]), strict=True)
    right = sum((label == "larger") == (value > 0) for label, value in pairs)
    return (
        f"The survey found {larger} sites that draw larger and {smaller} that draw smaller; "
        f"right for {right} of {len(labels)}."
    )
