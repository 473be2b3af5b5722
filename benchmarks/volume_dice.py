"""Score a run on its test volumes, each as a whole, by class: 3-D patches and slices alike.

A run on slices scores slice by slice, and most slices lack a class. Here its slices are put
together again (``feda3i predict``), so that both kinds of run can be compared.

    python benchmarks/volume_dice.py FOLDER RUN...
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np
from numpy.typing import NDArray

from feda3i import load_run
from feda3i.metrics import score_case

SCORES = ("dice", "hd95", "assd")


def test_volumes(run: Path) -> list[str]:
    """Return the names of the volumes that a run is tested on."""
    rows = load_run(run).rows()
    return sorted({re.sub(r"_z\d+$", "", str(row["case"])) for row in rows})


def predicted(run: Path, folder: Path, names: list[str], out: Path) -> None:
    """Write the masks of these volumes with the command."""
    given = out / "given"
    given.mkdir()
    for name in names:
        (given / f"{name}.nii.gz").symlink_to((folder / "images" / f"{name}.nii.gz").resolve())
    command = [sys.executable, "-m", "feda3i", "predict", str(run), str(given)]
    subprocess.run([*command, "--out", str(out / "masks")], check=True, capture_output=True)


def scores_of(run: Path, folder: Path) -> NDArray[np.float64]:
    """Return ``(class, score)`` means over the test volumes, distances in millimetres."""
    names, found = test_volumes(run), []
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary)
        predicted(run, folder, names, out)
        for name in names:
            mask = nib.load(out / "masks" / f"{name}.nii.gz")
            truth = nib.load(folder / "masks" / f"{name}.nii.gz")
            made, meant = np.asarray(mask.dataobj), np.asarray(truth.dataobj)
            spacing = tuple(float(side) for side in truth.header.get_zooms()[:3])
            classes = range(1, int(meant.max()) + 1)
            rows = [score_case(made == k, meant == k, spacing) for k in classes]
            found.append([[row[score] for score in SCORES] for row in rows])
    return np.nanmean(np.array(found, dtype=np.float64), axis=0)


def main() -> None:
    """Print one line per run."""
    folder, *runs = map(Path, sys.argv[1:])
    for run in runs:
        table = scores_of(run, folder)
        classes = ", ".join(f"{dice:.3f}" for dice in table[:, 0])
        both, hd95, assd = table.mean(axis=0)
        words = f"Dice by class {classes}, mean {both:.3f}, HD95 {hd95:.2f} mm, ASSD {assd:.2f} mm"
        print(f"{run.name}: {words}", flush=True)


if __name__ == "__main__":
    main()
