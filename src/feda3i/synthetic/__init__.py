"""Synthetic cases: skin and breast images with known masks, no download."""
