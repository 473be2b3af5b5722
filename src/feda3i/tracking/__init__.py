"""Runs in TensorBoard and MLflow: the event log feeds optional sinks, whose failure harms no run.

Sinks get numbers by round and site, the recipe and the notes; never a case, a mask or a pixel.
"""

from feda3i.tracking.event_numbers import event_numbers, params_of
from feda3i.tracking.tracker import SINKS, Sink, Tracker, open_tracker

__all__ = ["SINKS", "Sink", "Tracker", "event_numbers", "open_tracker", "params_of"]
