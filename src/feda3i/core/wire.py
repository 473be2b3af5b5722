"""The wire, enforced: nothing travels that the method did not declare."""

import math
from typing import Any

from feda3i.core.layout import Layout
from feda3i.core.messages import Order, Reply, Task, Wire
from feda3i.errors import DivergedError, WireError, nearest, shown

OFFSETS = ("offset", "offset_error", "offset_cases", "offset_radius")
"""What a site tells of its contours, by class: pixels at 256, and a number of cases."""
MOVE = "move"
"""The engine's own setting: by how many pixels at 256 a site moves its contours, by class."""
ALWAYS: dict[Task, tuple[str, ...]] = {"offsets": OFFSETS, "fit": ("loss",), "survey": ()}
"""Numbers that every method sends: the loss of a fit, and what the engine itself asks for."""
MAX_CASES = 10**9  # of a site
MAX_NUMBER = 1e30  # in a reply: far above any loss, and its square far below float64's end
MAX_SECONDS = 1e8  # that a site can say it took: three years
MAX_VALUE = 1e6
"""The largest trained parameter in a reply; a network that works stays below 1e4. Others can train
on from this much and undo it: sums and squares stay below the end of float32 (3.4e38)."""
MAX_BUFFER = 1e30  # running mean or variance: no weighted sum of them overflows
MAX_COUNT = 2**53  # integer buffer; it can still be counted up


def check_order(order: Order, wire: Wire, layout: Layout) -> None:
    """Raise ``WireError`` unless an order is declared and its networks fit and are finite."""
    check_order_names(order, wire)
    for params in (order.params, *order.networks.values()):
        layout.check(params)


def check_order_names(order: Order, wire: Wire) -> None:
    """Raise ``WireError`` unless an order holds declared settings and networks only."""
    settings = (*wire.settings, MOVE)
    _declared(f"an order for site {order.site}", "setting", list(order.settings), settings)
    _declared(f"an order for site {order.site}", "network", list(order.networks), wire.networks)


def check_reply(reply: Reply, wire: Wire, layout: Layout, classes: int) -> None:
    """Raise ``WireError`` unless a reply holds all declared numbers, and nothing else."""
    where = f"the {reply.task} reply of site {reply.site}"
    declared = {"fit": wire.fit, "survey": wire.survey}
    expected = (*ALWAYS[reply.task], *declared.get(reply.task, ()))
    _declared(where, "number", list(reply.numbers), expected)
    lacking = [name for name in expected if name not in reply.numbers]
    if lacking:
        raise WireError(f"{where} lacks the declared number '{lacking[0]}'")
    by_class = OFFSETS if reply.task == "offsets" else wire.per_class
    lists = {**dict.fromkeys(by_class, classes), **wire.lists}
    for name, value in reply.numbers.items():
        place, entries = f"{where}, '{name}'", lists.get(name)
        if entries is not None and not (isinstance(value, list) and len(value) == entries):
            found = f"{len(value)} entries" if isinstance(value, list) else type(value).__name__
            raise WireError(f"{place}: expected the {entries} declared entries, found {found}")
        numbers: list[Any] = value if isinstance(value, list) and entries else [value]
        for number in numbers:
            if name.endswith("_cases"):  # an integer, or a float without a fraction
                is_whole = isinstance(number, float) and number.is_integer()
                check_whole(place, int(number) if is_whole else number, 0, MAX_CASES)
            elif isinstance(number, float) and not math.isfinite(number):
                if reply.task != "survey":
                    raise DivergedError(f"{place}: expected a finite number, found {number}")
            else:
                check_range(place, number, -MAX_NUMBER, MAX_NUMBER)
    check_whole(f"{where}, the number of cases", reply.cases, 1, MAX_CASES)
    check_range(f"{where}, its seconds", reply.seconds, 0, MAX_SECONDS)
    if (reply.params is not None) != (reply.task == "fit"):
        raise WireError(f"{where}: parameters belong to a fit reply, and to nothing else")
    if reply.params is not None:
        layout.check_limits(reply.params, MAX_VALUE, MAX_BUFFER, MAX_COUNT)


def check_whole(where: str, value: Any, least: float, most: float) -> None:
    """Raise ``WireError`` unless a value from outside is a whole number in a range."""
    if type(value) is not int or not least <= value <= most:
        expected = f"a whole number from {least} to {most}"
        raise WireError(f"{where}: expected {expected}, found {shown(value)}")


def check_range(where: str, value: Any, least: float, most: float) -> None:
    """Raise ``WireError`` unless a value from outside is a finite number in a range."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # NaN is in no range
        expected = f"a number from {least:g} to {most:g}"
        raise WireError(f"{where}: expected {expected}, found {shown(value)}")


def _declared(where: str, kind: str, found: list[str], known: tuple[str, ...]) -> None:
    for name in found:
        if name not in known:
            what = f"{where} holds the {kind} {shown(name)}, which the method does not declare"
            raise WireError(f"{what} on its wire{nearest(name, known)}")
