"""What travels between server and sites: parameters, plans, orders, replies, and the wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feda3i.errors import printable

Array = NDArray[Any]
Floats = NDArray[np.float64]
Numbers = dict[str, float | int | list[float]]
Settings = Mapping[str, Any]
Task = Literal["offsets", "survey", "fit"]
"""The method's two tasks in a round, and the engine's own: tell how far masks are drawn outside
the borders in the images."""
TASKS: tuple[Task, ...] = ("offsets", "survey", "fit")
"""In the order in which a round asks for them."""


class Params(NamedTuple):
    """The state of a network as two flat vectors; a ``Layout`` says which entry lies where."""

    values: NDArray[np.float32]  # all floating-point entries, running statistics included
    counts: NDArray[np.int64]  # integer buffers (``num_batches_tracked``)


@dataclass(frozen=True)
class Wire:
    """What a method's messages may hold besides the network's parameters.

    Sending anything else is an error at the site, and accepting it is one at the server.
    """

    fit: tuple[str, ...] = ()
    """Names of the numbers that a site sends back after training. Every fit reply also carries the
    number of cases and the mean training loss."""
    survey: tuple[str, ...] = ()
    """Names of the numbers that a site sends in answer to a survey."""
    settings: tuple[str, ...] = ()
    """Names of the flags and numbers that the server sends to a site beside the parameters."""
    networks: tuple[str, ...] = ()
    """Names of further networks that the server sends to a site (FedDM's peers)."""
    per_class: tuple[str, ...] = ()
    """Those of the numbers that are lists with one entry per foreground class; every other number
    is a single one. So no array of an image's size can pass as a number."""
    lists: Mapping[str, int] = field(default_factory=dict)
    """Numbers that are lists with as many entries as are declared here, 1024 at most."""


@dataclass(frozen=True)
class Plan:
    """What the server asks in one round."""

    sites: tuple[str, ...] | None = None
    """Who trains; ``None`` means every site."""
    survey: tuple[str, ...] | None = ()
    """Who answers a survey before the training; an empty tuple means nobody, ``None`` everybody."""
    survey_params: Params | None = None
    """The parameters to survey with if not the current ones (late joiners)."""
    gather: bool = False
    """Merge by the method's ``weights`` or ``merge``; otherwise by FedAvg's shares of the cases."""
    settings: Settings = field(default_factory=dict)
    site_settings: Mapping[str, Settings] = field(default_factory=dict)
    networks: Mapping[str, Mapping[str, Params]] = field(default_factory=dict)
    """Flags and numbers for all sites, for single sites, and further networks for single sites; the
    names must be declared on the wire."""


@dataclass(frozen=True)
class Order:
    """What one site is asked: a task with the parameters to do it with."""

    task: Task
    round: int
    site: str
    params: Params
    settings: Settings = field(default_factory=dict)
    networks: Mapping[str, Params] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """What one site answers; only a fit sends ``params``."""

    task: Task
    round: int
    site: str
    cases: int
    numbers: Numbers
    params: Params | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Missing:
    """A site that did not answer, or whose answer was refused, and why.

    The reason may quote what a site sent; what cannot be shown safely is escaped here.
    """

    site: str
    reason: str
    has_diverged: bool = False  # the site's training went wrong, e.g. its loss is not finite

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", printable(self.reason))


@dataclass(frozen=True)
class Replies(Sequence[Reply]):
    """The accepted replies of one task, sorted by site."""

    task: Task
    round: int
    items: tuple[Reply, ...]
    missing: tuple[Missing, ...] = ()
    max_share: float = 1.0
    """The most that one site may count by its cases (``engine.max_share``)."""

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    @property
    def sites(self) -> list[str]:
        """Return who answered."""
        return [reply.site for reply in self.items]

    @property
    def cases(self) -> Floats:
        """Return the number of cases of each site that answered, as far as they count, ``(site,)``.

        With a cap on a site's share, a site that is above it counts as if it had fewer cases.
        """
        cases = np.array([reply.cases for reply in self.items], dtype=np.float64)
        if self.max_share >= 1:
            return cases
        return np.asarray(cap_shares(cases / cases.sum(), self.max_share) * cases.sum())

    def share_of_cases(self) -> Floats:
        """Return the quantity weights n_i / N over the sites that answered, ``(site,)``."""
        return np.asarray(self.cases / self.cases.sum())

    def number(self, name: str) -> Floats:
        """Return one reported number of all sites: ``(site,)``, or ``(site, class)`` for lists."""
        return np.array([reply.numbers[name] for reply in self.items], dtype=np.float64)


def cap_shares(shares: Floats, most: float) -> Floats:
    """Return shares of at most ``most``; what is cut off goes to the others in proportion.

    Where so few sites cannot share the whole under the cap, all get the same.

    >>> cap_shares(np.array([0.8, 0.1, 0.1]), 0.5).tolist()
    [0.5, 0.25, 0.25]
    >>> cap_shares(np.array([0.8, 0.2]), 0.4).tolist()
    [0.5, 0.5]
    """
    count = len(shares)
    if not count or shares.max() <= most:
        return shares
    if most * count <= 1:
        return np.full(count, 1 / count)
    is_capped = np.zeros(count, dtype=bool)
    capped = shares
    while np.any(capped > most):  # each turn caps at least one more
        is_capped |= capped > most
        rest = shares[~is_capped]
        left = 1 - most * is_capped.sum()
        capped = np.full(count, most)
        # Sites without a case, if nobody else is left, share alike.
        of_rest = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1 / len(rest))
        capped[~is_capped] = left * of_rest
    return capped
