"""A bench: a grid of runs, each in its own folder, and what their results say together."""
