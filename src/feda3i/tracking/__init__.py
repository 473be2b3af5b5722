"""Runs in TensorBoard and MLflow: the event log feeds optional sinks, whose failure harms no run.

Sinks get numbers by round and site, the recipe and the notes; never a case, a mask or a pixel.
"""

from feda3i.tracking.tracker import Tracker, event_numbers, open_tracker, params_of

__all__ = ["Tracker", "event_numbers", "open_tracker", "params_of"]
