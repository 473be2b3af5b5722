"""Listeners that break a run off, or do something after each of its rounds."""

from feda3i.engine.console import Silent
from feda3i.testing import StopAfter

__all__ = ["After", "StopAfter"]


class After(Silent):
    """Call a function with the number of every round that has ended; keep what was told."""

    def __init__(self, act):
        self.act, self.notes = act, []

    def note(self, text):
        self.notes.append(text)

    def round(self, event):
        self.act(event["round"])
