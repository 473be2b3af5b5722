"""Annotation noise: C(mu, sigma) of the FedA3I paper, its multi-site form, other noise models."""

from feda3i.noise.annotators import SETTINGS, annotators_of_setting, draw_annotators, get_setting
from feda3i.noise.contour import ContourEvolution
from feda3i.noise.levelset import SignedDistanceEvolution
from feda3i.noise.model import Annotator, NoiseModel, NoiseWarning
from feda3i.noise.noisy_masks import REGISTRY, apply_noise, build_model
from feda3i.noise.other_models import ClassConditional, MarkovNoise, MorphologicalNoise
from feda3i.noise.pdn import pixel_dependence
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
    "NoiseWarning",
    "NoisyMaskd",
    "SignedDistanceEvolution",
    "annotators_of_setting",
    "apply_noise",
    "build_model",
    "draw_annotators",
    "get_setting",
    "noisy",
    "pixel_dependence",
]
