"""Federated medical image segmentation when the annotations are noisy."""

__version__ = "0.1.0"
