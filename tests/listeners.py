"""A listener that breaks a run off, and keeps what it was told."""

from feda3i.engine.console import Silent


class StopAfter(Silent):
    def __init__(self, rounds=1):
        self.rounds = rounds
        self.notes = []

    def note(self, text):
        self.notes.append(text)

    def round(self, event):
        if event["round"] == self.rounds:
            raise KeyboardInterrupt
