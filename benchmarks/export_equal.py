"""Compare the masks of a run's exports with those of ``feda3i predict``, voxel by voxel.

    python benchmarks/export_equal.py RUN FOLDER
    python benchmarks/export_equal.py RUN FOLDER --cases 5 --formats onnx

FOLDER holds images, or a folder ``images`` with them: NIfTI for a model of volumes, else pictures.
Every export is asked as a user would ask it: by the lines of Python in its own model card, or by
``monai.bundle.run`` in a process that cannot import feda3i. Exit code 1: a voxel differs.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMATS = ("onnx", "monai-bundle")
ENDINGS = (".nii.gz", ".nii", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")


def main() -> None:
    """Export, predict and compare; print a line per format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--formats", default=",".join(FORMATS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        work = Path(made)
        stems = gather(asked.folder, work / "images", asked.cases)
        feda3i("predict", asked.run.resolve(), work / "images", "--out", work / "ours")
        ours = {stem: read_mask(find(work / "ours", stem)) for stem in stems}
        total = sum(mask.size for mask in ours.values())
        inside = sum(int((mask > 0).sum()) for mask in ours.values())
        print(f"{len(ours)} cases, {total} voxels, {inside} of them foreground in predict's masks")
        counts = np.bincount(np.concatenate([mask.ravel() for mask in ours.values()]).astype(int))
        held = ", ".join(f"{count} of {v}" for v, count in enumerate(counts.tolist()) if count)
        print(f"voxels by value: {held}")
        # Where all voxels are alike there is no border that an export could place otherwise.
        assert 0 < inside < total, "predict finds no border between object and background"
        bad = sum(compare(name, asked.run, work, ours) for name in asked.formats.split(","))
    sys.exit(1 if bad else 0)


def compare(name: str, run: Path, work: Path, ours: dict[str, NDArray[Any]]) -> int:
    """Return how many voxels of a format's masks differ, and say it."""
    feda3i("export", run.resolve(), "--to", name, "--out", work / name)
    begin, cases, voxels = time.perf_counter(), 0, 0
    for stem, mask in (by_bundle if name == "monai-bundle" else by_card)(work / name, work, ours):
        wrong = int((as_labels(mask, ours[stem]) != ours[stem]).sum())
        cases, voxels = cases + (wrong > 0), voxels + wrong
    took = time.perf_counter() - begin
    print(f"{name:13} {voxels} voxels differ, in {cases} cases  ({took:.0f} s)", flush=True)
    return voxels


def by_card(export: Path, work: Path, stems: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield masks from the lines in the model card; the model is read once."""
    found = re.search(r"```python\n(.*?)```", (export / "README.md").read_text(), re.DOTALL)
    assert found, "the card has no Python in it"
    load, each = re.split(r"^(?=(?:file|image) = )", found[1], maxsplit=1, flags=re.MULTILINE)
    names: dict[str, Any] = {}
    with chdir(export):
        exec(load, names)
        for stem in stems:
            source = find(work / "images", stem)
            target = "image.nii.gz" if source.name.endswith(".nii.gz") else "image.png"
            shutil.copyfile(source, target)
            exec(each, names)
            # The written file counts, where the card writes one.
            written = Path("mask.nii.gz")
            yield stem, read_mask(written) if written.exists() else np.asarray(names["mask"])


def by_bundle(export: Path, work: Path, stems: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield masks that MONAI alone writes, and check that they lie where their images do."""
    options = {
        "config_file": str(export / "configs" / "inference.json"),
        "meta_file": str(export / "configs" / "metadata.json"),
        "bundle_root": str(export),
        "dataset_dir": str(work / "images"),
        "output_dir": str(work / "theirs"),
    }
    # The command line of MONAI does the same, but needs the package fire. If the bundle needed
    # feda3i, it would not find it: an import of it fails in that process.
    lines = "import sys; sys.modules['feda3i'] = None; from monai.bundle import run; "
    command = [sys.executable, "-c", f"{lines}run(**{options!r})"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for stem in stems:
        path = find(work / "theirs", f"{stem}_mask")
        if path.name.endswith(".nii.gz"):
            import nibabel

            image = nibabel.load(find(work / "images", stem))
            np.testing.assert_allclose(nibabel.load(path).affine, image.affine, atol=1e-5)
        yield stem, read_mask(path)


def gather(folder: Path, target: Path, count: int) -> list[str]:
    """Copy the first images of a folder; return their names without ending."""
    source = folder / "images" if (folder / "images").is_dir() else folder
    files = sorted(file for file in source.iterdir() if ending_of(file))[:count]
    assert files, f"{source} holds no image ({', '.join(ENDINGS)})"
    target.mkdir()
    for file in files:
        shutil.copyfile(file, target / file.name)
    return [file.name.removesuffix(ending_of(file)) for file in files]


def ending_of(file: Path) -> str:
    """Return the ending of an image, or nothing."""
    return next((file.name[-len(e) :] for e in ENDINGS if file.name.lower().endswith(e)), "")


def find(folder: Path, stem: str) -> Path:
    """Return the one image of this name."""
    (found,) = (f for f in folder.iterdir() if f.name.removesuffix(ending_of(f)) == stem)
    return found


def read_mask(path: Path) -> NDArray[Any]:
    """Return the numbers in a file."""
    if path.name.endswith(".nii.gz"):
        import nibabel

        return np.asarray(nibabel.load(path).dataobj)
    from PIL import Image

    return np.asarray(Image.open(path))


def as_labels(mask: NDArray[Any], like: NDArray[Any]) -> NDArray[Any]:
    """Return a mask with the values that predict writes: 255 where pictures have one class."""
    return mask * 255 if like.ndim == 2 and like.max() == 255 and mask.max() <= 1 else mask


def feda3i(*words: Any) -> None:
    """Run a command of feda3i."""
    command = [sys.executable, "-m", "feda3i", *(str(word) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout


if __name__ == "__main__":
    main()
