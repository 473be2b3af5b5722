"""A bench: a grid of runs, each in a folder of its own, and what their results say together."""
