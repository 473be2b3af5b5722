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
        site.resident = {
            kind: DeviceStack(getattr(site.cases, kind), CPU, room) for kind in ("images", "masks")
        }
        numbers = steps.method.fit(site)
        results.append((numbers["loss"], site.layout.read(site.network).values))
    assert results[0][0] == results[1][0]
    np.testing.assert_array_equal(results[0][1], results[1][1])


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
