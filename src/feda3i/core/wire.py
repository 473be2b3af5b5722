"""The wire, enforced: nothing travels that the method did not declare."""

from __future__ import annotations

import math
from typing import Any

from feda3i.core import statistics
from feda3i.core.layout import Layout
from feda3i.core.messages import Order, Reply, Task, Wire
from feda3i.errors import WireError, nearest

ALWAYS: dict[Task, tuple[str, ...]] = {
    "fit": ("loss",),
    "survey": (),
    "act": (),
    "measure": statistics.NUMBERS,
}
"""Numbers that every method sends: the loss of a fit, and what the engine itself asks for."""


def check_order(order: Order, wire: Wire, layout: Layout) -> None:
    """Raise ``WireError`` unless an order holds declared settings and networks only."""
    _declared(f"an order for site {order.site}", "setting", list(order.settings), wire.settings)
    _declared(f"an order for site {order.site}", "network", list(order.networks), wire.networks)
    for params in (order.params, *order.networks.values()):
        layout.check(params)


def check_reply(reply: Reply, wire: Wire, layout: Layout, classes: int) -> None:
    """Raise ``WireError`` unless a reply holds all declared numbers, and nothing else."""
    where = f"the {reply.task} reply of site {reply.site}"
    declared = {"fit": wire.fit, "survey": wire.survey}
    expected = (*ALWAYS[reply.task], *declared.get(reply.task, ()))
    _declared(where, "number", list(reply.numbers), expected)
    lacking = [name for name in expected if name not in reply.numbers]
    if lacking:
        raise WireError(f"{where} lacks the declared number '{lacking[0]}'")
    if reply.task == "measure":
        statistics.check_statistics(where, reply.numbers, layout)
    else:
        for name, value in reply.numbers.items():
            entries = classes if name in wire.per_class else None
            _check_number(f"{where}, '{name}'", value, entries, reply.task == "fit")
    if isinstance(reply.cases, bool) or not isinstance(reply.cases, int) or reply.cases < 1:
        raise WireError(f"{where}: expected a number of cases of at least 1, found {reply.cases!r}")
    if (reply.params is not None) != (reply.task == "fit"):
        raise WireError(f"{where}: parameters belong to a fit reply, and to nothing else")
    if reply.params is not None:
        layout.check(reply.params)


def _declared(where: str, kind: str, found: list[str], known: tuple[str, ...]) -> None:
    for name in found:
        if name not in known:
            raise WireError(
                f"{where} holds the {kind} '{name}', which the method does not declare on its "
                f"wire{nearest(name, known)}"
            )


def _check_number(where: str, value: Any, entries: int | None, must_be_finite: bool) -> None:
    """Raise ``WireError`` unless this is one number, or a list with one entry per class."""
    if entries is not None and not (isinstance(value, list) and len(value) == entries):
        size = f"{len(value)} entries" if isinstance(value, list) else type(value).__name__
        raise WireError(
            f"{where}: expected a list with one entry per class ({entries}), found {size}"
        )
    for number in value if entries is not None else [value]:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise WireError(f"{where}: expected a number, found {type(number).__name__}")
        if must_be_finite and not math.isfinite(number):
            raise WireError(f"{where}: expected a finite number, found {number}")
