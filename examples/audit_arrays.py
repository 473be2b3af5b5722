"""Who draws larger, who smaller? Audit arrays in memory, then put the masks right.

Run it: python examples/audit_arrays.py
"""

import numpy as np

import feda3i


def cases(radii: dict[str, float], each: int = 12) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return images of dark discs, masks drawn with a radius per site, and the site of each."""
    draw, (y, x) = np.random.default_rng(0), np.mgrid[:64, :64]
    sites = [site for site in radii for _ in range(each)]
    centres = draw.uniform(28, 36, (len(sites), 2))
    away = np.stack([np.hypot(y - cy, x - cx) for cy, cx in centres])
    images = 180 - 100 * (away < 16) + draw.normal(0, 12, away.shape)
    drawn = away < np.array([radii[site] for site in sites])[:, None, None]
    return images.clip(0, 255).astype(np.uint8), drawn.astype(np.uint8), sites


def main() -> dict[str, tuple[str, float]]:
    """Return what the audit says of each site, and the mean area that redrawing takes away."""
    images, masks, sites = cases({"north": 19, "east": 16, "west": 15, "south": 14})

    audit = feda3i.audit_arrays(images, masks, sites)
    offsets = {one.site: one.relative or 0.0 for one in audit.findings}
    redrawn = [
        feda3i.quality.shift_mask(mask, -offsets[site])
        for mask, site in zip(masks, sites, strict=True)
    ]

    taken = np.sum(masks, (1, 2)) - np.sum(redrawn, (1, 2))
    return {
        one.site: (one.verdict, float(taken[np.array(sites) == one.site].mean()))
        for one in audit.findings
    }


if __name__ == "__main__":
    for site, (verdict, area) in main().items():
        print(f"{site:6} {verdict:15} {area:+.0f} pixels taken away per mask")
