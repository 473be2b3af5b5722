"""Miniatures of what publishers and hospitals send."""

from pathlib import Path

import numpy as np
from PIL import Image


def lesion(seed=0, height=40, width=48, colour=True):
    """Return an image with a dark disc of its own place and texture, and the disc's mask."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    y, x = rng.uniform(0.35, 0.65, 2) * (height, width)
    radius = rng.uniform(0.15, 0.3) * min(height, width)
    mask = (rows - y) ** 2 + (columns - x) ** 2 <= radius**2
    waves = rng.uniform(0, 0.6, (4, 2)), rng.uniform(0, 6, 4)
    skin = sum(np.sin(a * rows + b * columns + c) for (a, b), c in zip(*waves, strict=True))
    image = (170 + 12 * skin - 80 * mask)[..., None] + rng.normal(0, 3, (height, width, 3))
    image = np.clip(image + np.array([20, 0, -10]), 0, 255).astype(np.uint8)
    return (image if colour else image[..., :1]), mask


def save(path: Path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    array = np.asarray(pixels)
    array = array[..., 0] if array.ndim == 3 and array.shape[-1] == 1 else array
    Image.fromarray(array).save(path, **options)


def save_pair(root: Path, stem: str, seed=0, masks="masks", images="images", ending="", **shape):
    image, mask = lesion(seed, **shape)
    save(root / images / f"{stem}.png", image)
    save(root / masks / f"{stem}{ending}.png", mask.astype(np.uint8) * 255)
    return image, mask


def plain_tree(root: Path, cases=6, first=0, **shape):
    for number in range(cases):
        save_pair(root, f"case{number}", first + number, **shape)
    return root


def isic_tree(root: Path, train=3, test=2):
    """Write the four folders of ISIC 2017, superpixels and a table among them."""
    for part, count, first in (("Training", train, 0), ("Test_v2", test, 100)):
        data, truth = root / f"ISIC-2017_{part}_Data", root / f"ISIC-2017_{part}_Part1_GroundTruth"
        for number in range(first, first + count):
            image, mask = lesion(number, 36 + number % 5, 50)
            stem = f"ISIC_{number:07d}"
            save(data / f"{stem}.jpg", image, quality=95)
            save(data / f"{stem}_superpixels.png", image)
            save(truth / f"{stem}_segmentation.png", mask.astype(np.uint8) * 255)
        (data / f"ISIC-2017_{part}_Data_metadata.csv").write_text("image_id,age\n")
    return root


def breast_tree(root: Path):
    """Write BUSI (two masks for one image, a normal), BUSIS and UDIAT."""
    busi = root / "Dataset_BUSI_with_GT"
    for first, kind, count in ((10, "benign", 5), (20, "malignant", 5), (30, "normal", 2)):
        for number in range(1, count + 1):
            image, mask = lesion(first + number, 40, 60)
            drawn = mask if kind != "normal" else np.zeros_like(mask)
            save(busi / kind / f"{kind} ({number}).png", image)
            save(busi / kind / f"{kind} ({number})_mask.png", drawn)
    second = np.zeros((40, 60), bool)
    second[:6, :6] = True
    save(busi / "benign" / "benign (1)_mask_1.png", second)
    for number in range(1, 6):
        image, mask = lesion(300 + number, 44, 52, colour=False)
        save(root / "BUSIS" / "Original" / f"case{number:03d}.bmp", image)
        save(root / "BUSIS" / "GT" / f"case{number:03d}_GT.bmp", mask.astype(np.uint8) * 255)
        image, mask = lesion(400 + number, 38, 38, colour=False)
        save(root / "UDIAT" / "original" / f"{number:06d}.png", image)
        save(root / "UDIAT" / "GT" / f"{number:06d}.png", mask.astype(np.uint8) * 255)
    return root


def save_volume(path: Path, values, affine=(1.0, 1.0, 2.0)):
    """Write a NIfTI volume of axes x, y, z; the affine is sizes of voxels, a matrix or none."""
    import nibabel

    path.parent.mkdir(parents=True, exist_ok=True)
    affine = np.diag([*affine, 1.0]) if np.ndim(affine) == 1 else affine
    nibabel.save(nibabel.Nifti1Image(values, affine), path)


def tree_bytes(root: Path) -> dict[str, bytes]:
    return {str(f.relative_to(root)): f.read_bytes() for f in root.rglob("*") if f.is_file()}
