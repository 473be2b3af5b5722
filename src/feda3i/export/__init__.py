"""Exports: one graph from image to mask, as ONNX or as a MONAI bundle."""
