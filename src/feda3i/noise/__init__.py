"""Annotation noise: C(mu, sigma) of the FedA3I paper, its multi-site form, and other noise models.

>>> import numpy as np
>>> from feda3i.noise import ContourEvolution
>>> mask = np.zeros((256, 256), np.uint8); mask[80:180, 90:170] = 1
>>> noisy = ContourEvolution(mu=-7, sigma=2)(mask, np.random.default_rng(0))
>>> bool(noisy.sum() < mask.sum())
True
"""

from feda3i.noise.annotators import (
    SETTINGS,
    NoiseSetting,
    annotators_of_setting,
    draw_annotators,
    get_setting,
)
from feda3i.noise.contour import ContourEvolution
from feda3i.noise.levelset import SignedDistanceEvolution
from feda3i.noise.model import Annotator, NoiseModel, NoiseWarning
from feda3i.noise.noisy_masks import (
    REGISTRY,
    NoisyCase,
    NoisyMasks,
    apply_noise,
    build_model,
    noisy_case,
)
from feda3i.noise.other_models import ClassConditional, MarkovNoise, MorphologicalNoise
from feda3i.noise.pdn import PixelDependence, pixel_dependence
from feda3i.noise.transform import NoisyMaskd, noisy

__all__ = [
    "REGISTRY",
    "SETTINGS",
    "Annotator",
    "ClassConditional",
    "ContourEvolution",
    "MarkovNoise",
    "MorphologicalNoise",
    "NoiseModel",
    "NoiseSetting",
    "NoiseWarning",
    "NoisyCase",
    "NoisyMaskd",
    "NoisyMasks",
    "PixelDependence",
    "SignedDistanceEvolution",
    "annotators_of_setting",
    "apply_noise",
    "build_model",
    "draw_annotators",
    "get_setting",
    "noisy",
    "noisy_case",
    "pixel_dependence",
]
