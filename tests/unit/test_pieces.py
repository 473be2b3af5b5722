"""The pieces for a loop of one's own."""

from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

import feda3i
from feda3i.core.layout import Layout
from feda3i.errors import DataError


class Fixed(nn.Module):
    """Answers with logits that it was given, as a network for one sigmoid or a softmax."""

    def __init__(self, logits, softmax):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        self.logits = torch.cat([-logits / 2, logits / 2], 1) if softmax else logits

    def forward(self, images):
        return self.logits[: len(images)] + self.bias


MASK = np.zeros((3, 12, 12), np.int64)
MASK[:, 3:8, 4:9] = 1
SHAPES = {
    "array of a class map": MASK,
    "tensor": torch.from_numpy(MASK),
    "one channel": torch.from_numpy(MASK)[:, None].float(),
    "one-hot with background": torch.from_numpy(np.stack([1 - MASK, MASK], axis=1)),
}


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("masks", SHAPES.values(), ids=SHAPES.keys())
def test_a_survey_takes_masks_and_logits_of_every_form(masks, softmax):
    logits = torch.randn(3, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    images = torch.zeros(3, 1, 12, 12, dtype=torch.uint8)
    model = Fixed(logits, softmax).train()
    for batch in ((images, masks), {"image": images, "label": masks}):
        found = feda3i.survey(model, [batch])
        expected = feda3i.quality.survey_site([(logits, MASK)])
        q, of_arrays = (next(iter(one.to_dict().values())) for one in (found, expected))
        np.testing.assert_allclose(q, of_arrays, rtol=1e-5, atol=1e-6)
    assert model.training
    with pytest.raises(DataError, match="from 0 to 1, found 0 to 255"):
        feda3i.survey(model, [(images, 255 * MASK)])


def test_the_average_is_that_of_the_engine_for_any_network():
    def odd(seed):
        torch.manual_seed(seed)
        middle = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 3, 1))
        parts = {"Öffnung": nn.Conv2d(1, 3, 3), "mitte": middle, "kopf": nn.Conv2d(3, 1, 1)}
        network = nn.Sequential(OrderedDict(parts))
        network(torch.randn(2, 1, 8, 8))
        return network

    networks = [odd(seed) for seed in range(3)]
    stages = feda3i.stages_of(networks[0], torch.zeros(1, 1, 8, 8))
    assert [stage.name for stage in stages] == ["Öffnung", "mitte", "kopf"]
    weights = np.array([[0.2, 0.5, 0.0], [0.3, 0.25, 1.0], [0.5, 0.25, 0.0]])
    found = feda3i.average([net.state_dict() for net in networks], weights, stages)
    layout = Layout.of(networks[0], stages)
    rows = np.stack([layout.read(net).values for net in networks])
    spans = layout.spans()
    expected = np.concatenate([weights[:, stage] @ rows[:, a:b] for a, b, stage in spans])
    networks[0].load_state_dict(found)
    np.testing.assert_allclose(layout.read(networks[0]).values, expected, rtol=1e-6, atol=1e-7)
    assert int(found["mitte.0.num_batches_tracked"]) == 1
