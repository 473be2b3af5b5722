"""Make docs/images/augment.png, synthetic cases under two presets: python docs/make_augment.py."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from feda3i.core.augment import PRESETS, change_values, draw_places
from feda3i.core.predictor import image_tensor
from feda3i.synthetic.federations import synthetic_breast, synthetic_skin

PICTURE = Path(__file__).with_name("images") / "augment.png"


def row_of(images: Tensor, masks: Tensor) -> NDArray[np.uint8]:
    """Return cases side by side with the contours of their masks."""
    row = []
    for image, mask in zip(images, masks, strict=True):
        pixels = image.permute(1, 2, 0).round().numpy().astype(np.uint8)
        picture = np.ascontiguousarray(np.broadcast_to(pixels[..., ::-1], (*pixels.shape[:2], 3)))
        drawn = mask[0].numpy().astype(np.uint8)
        contours, _ = cv2.findContours(drawn, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        row.append(cv2.drawContours(picture, contours, -1, (0, 255, 0), 1))
    return np.hstack(row)


def main() -> None:
    """Draw the cases as they are, and three times changed below."""
    halves = []
    for make, name in ((synthetic_skin, "dermoscopy"), (synthetic_breast, "ultrasound")):
        cases = make(sites=1, cases=4, test=1, size=96).train
        images = image_tensor(cases.images, torch.device("cpu"))
        masks = torch.from_numpy(cases.masks)[:, None].float()
        draw, rows = np.random.default_rng(0), [row_of(images, masks)]
        for _ in range(3):
            places = draw_places(PRESETS[name], draw, images)
            assert places is not None
            moved = places(images, smooth=True), places(masks, smooth=False)
            rows.append(row_of(change_values(PRESETS[name], draw, moved[0]), moved[1]))
        halves.append(np.vstack(rows))
    cv2.imwrite(str(PICTURE), np.hstack(halves), [cv2.IMWRITE_PNG_COMPRESSION, 9])


if __name__ == "__main__":
    main()
