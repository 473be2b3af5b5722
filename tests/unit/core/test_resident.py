"""Cases that lie on the device as a whole give the batches that cases by batch give."""

import numpy as np
import torch

from feda3i.core.predictor import DeviceStack
from stepping import Steps

CPU = torch.device("cpu")


def test_a_site_trains_to_the_same_bits_on_resident_cases(tmp_path):
    steps = Steps(tmp_path, "fedavg")
    results = []
    for room in (0, 2**20):
        site = steps.site("site-1")
        stacks = {"images": site.cases.images, "masks": site.cases.masks}
        site.resident = {kind: DeviceStack(stack, CPU, room) for kind, stack in stacks.items()}
        steps.method.fit(site)
        results.append(site.layout.read(site.network).values)
    np.testing.assert_array_equal(*results)


def test_numbers_that_leave_the_device_do_not_grow_with_the_steps(tmp_path, monkeypatch):
    site = Steps(tmp_path, "fedavg").site("site-1")
    read, number = [], torch.Tensor.__float__
    monkeypatch.setattr(torch.Tensor, "__float__", lambda t: read.append(1) or number(t))
    counts = []
    for batch in (4, 1):
        site.training = site.training.model_copy(update={"batch": batch})
        read.clear()
        site.train(lambda batch: site.network(batch.images).square().mean())
        counts.append(len(read))
    assert counts[0] == counts[1] > 0
