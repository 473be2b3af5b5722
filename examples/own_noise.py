"""A noise model of your own: an annotator who cuts corners, drawing everything with few points.

Try it: feda3i run demo noise=examples/own_noise.py:Polygon noise.setting=skin-ns noise.corners=7
"""

from dataclasses import dataclass

import cv2
import numpy as np


@dataclass(frozen=True)
class Polygon:
    """Replace each outline by a polygon; ``mu`` and ``sigma`` come from the site's annotator."""

    mu: float
    """How far the corners lie outside the outline, in pixels."""
    sigma: float
    """Standard deviation of that distance."""
    corners: int = 9
    """Number of corners; an option of the recipe's section ``[noise]``."""

    def __call__(self, mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the mask as drawn by this annotator: same shape, same type."""
        drawn = np.zeros(mask.shape, np.uint8)
        found, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        for outline in found:
            points = outline[:, 0].astype(float)
            chosen = points[np.linspace(0, len(points), self.corners, False).astype(int)]
            away = chosen - points.mean(0)
            away /= np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1)
            moved = chosen + away * rng.normal(self.mu, self.sigma, (self.corners, 1))
            cv2.fillPoly(drawn, [np.rint(moved).astype(np.int32)], 1)
        return drawn.astype(mask.dtype)
