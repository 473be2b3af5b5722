"""Images of discs, masks drawn a known number of pixels outside; difficulties of any sites."""

import numpy as np

from feda3i.seeding import rng


def distance(shape, centre=None, spacing=1.0):
    """Return how far each pixel is in space from a point, the middle by default."""
    grid = np.moveaxis(np.indices(shape, dtype=float), 0, -1) * spacing
    centre = [(side - 1) / 2 for side in shape] if centre is None else centre
    return np.linalg.norm(grid - centre, axis=-1)


def picture(away, radius, *, seed=0, noise=12.0, blur=1.0, inside=80.0, outside=150.0):
    """Return a grey image of a disc whose border is ``blur`` pixels wide, with noise."""
    share = 1 / (1 + np.exp(np.clip((away - radius) / blur, -50, 50)))
    values = outside + (inside - outside) * share
    values = values + rng(seed, "picture").normal(0, noise, away.shape)
    return np.clip(values, 0, 255).astype(np.uint8)


def site(offset, number=8, side=128, *, radius=25.0, wobble=1.0, seed=0, paint=picture, **options):
    """Return images and masks of a site that draws ``offset`` pixels outside, case by case."""
    images, masks = [], []
    for k in range(number):
        draw = rng(seed, "drawn", k)
        centre = side / 2 + draw.uniform(-0.08, 0.08, 2) * side
        away, own = distance((side, side), centre), radius * draw.uniform(0.8, 1.2)
        images.append(paint(away, own, seed=1000 * seed + k, **options))
        masks.append(away < own + offset + draw.normal(0, wobble))
    return np.stack(images), np.stack(masks)


def any_sites(number, seed, kind):
    """Return a generator and difficulties ``(site, 2)``: a cloud, ties, bad ones, or one kind."""
    random = np.random.default_rng(seed)
    q = random.gamma(1.5, 0.4, (number, 2))
    q = q.round(0) if kind == "ties" else q
    if kind == "bad":
        q[random.random(number) < 0.4] = random.choice([np.nan, np.inf, -1.0])
    return random, q + np.array([9 if kind == "one kind" else 0, 0])
