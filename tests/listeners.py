"""A listener that breaks a run off, and keeps what it was told."""

from feda3i.testing import StopAfter

__all__ = ["StopAfter"]
