"""Exports: one graph from image to mask, as ONNX or as a MONAI bundle."""

import os

# Some builds of onnxruntime open a telemetry session as soon as they are imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
