"""FedAvg: average the sites' networks by their number of cases.

Paper
    McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data,
    AISTATS 2017. Rows "CE" and "DC" of the FedA3I paper.
What changes against FedAvg
    Nothing: this is it. Every entry of the state is averaged, running statistics of BatchNorm
    included; integer buffers take the largest value. The optimiser's moments are new every round.
What leaves the site
    The network's parameters, the number of cases, the mean training loss.
Departures
    Sums run in a fixed order of sites, so that a run repeats bit for bit.
"""

from typing import ClassVar

from feda3i.methods.base import Method


class FedAvg(Method):
    """The default behaviour under its own name."""

    begins_as_fedavg: ClassVar[bool] = True


METHOD = FedAvg
