"""Redrawn masks as an ordinary Flower strategy, for apps that already exist.

Take ``Redraw`` instead of ``FedAvg`` at the server. At the clients, add three lines to the train
function, before the training::

    masks, told = redraw_masks(message, images, masks)
    if told is not None:
        content["offsets"] = told

No further message is sent: with its first reply a client tells how far it draws outside the borders
in its images, and its later messages say by how much to move its contours. The server has nothing
to keep: started again, it knows all moves after one round.
"""

import logging
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from numpy.typing import ArrayLike, NDArray

from feda3i.core.wire import MAX_CASES
from feda3i.quality import SIDE, Offset, longest_side, measure_edges, redraw, rescaled, site_effects

MOVES, OFFSETS = "feda3i-moves", "offsets"
COLUMNS = ("offset", "error", "cases", "radius")
log = logging.getLogger("feda3i.strategy")


def redraw_masks(
    message: Message, images: ArrayLike, masks: ArrayLike, classes: int = 1
) -> tuple[NDArray[np.uint8], ConfigRecord | None]:
    """Return masks moved as the message says; else the given ones, and the reply's ``"offsets"``.

    ``images`` are ``(case, *space)`` or ``(case, *space, channel)`` on any linear scale that cases
    share, ``masks`` are ``(case, *space)`` with value k for class k, always the given ones.
    """
    drawn, seen = np.asarray(masks).astype(np.uint8), np.asarray(images)
    scale = SIDE / longest_side(drawn.shape[1:])
    for record in message.content.config_records.values():
        if isinstance(moves := record.get(MOVES), list) and len(moves) == classes:
            by = [float(move) / scale for move in moves]
            return np.array([redraw(mask, by) for mask in drawn]).reshape(drawn.shape), None
    found = [rescaled(measure_edges(seen, drawn == k), scale) for k in range(1, classes + 1)]
    columns = [[float(getattr(one, name)) for one in found] for name in COLUMNS]
    return drawn, ConfigRecord(dict(zip(COLUMNS, columns, strict=True)))


class Redraw(FedAvg):
    """FedAvg of networks that learn from redrawn masks.

    It composes: ``class Mine(Redraw, FedA3I)`` weighs sites as well.

    Parameters
    ----------
    border
        Offsets of masks that are known to be right, by class, in pixels at 256
        (``feda3i.quality.measure_edges``); by default the sites are compared with each other.
    options
        Those of Flower's ``FedAvg``.
    """

    def __init__(self, border: Sequence[Offset] = (), **options: Any) -> None:
        super().__init__(**options)
        self.border = border
        self.offsets: dict[str, list[Offset]] = {}
        """What each node (by number) told, by class, in pixels at 256."""
        self.moves: dict[str, list[float]] = {}
        """By how much each node moves its contours outwards, by class, in pixels at 256."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask all nodes to train, and tell those who are known their moves."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for message in messages:
            if moves := self.moves.get(str(message.metadata.dst_node_id)):
                add_settings(message, self.configrecord_key, MOVES, moves)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Compute every node's move from all offsets so far, and average."""
        answers = list(replies)
        for reply in answers:
            node = str(reply.metadata.src_node_id)
            if not reply.has_error() and OFFSETS in reply.content:
                try:
                    self.offsets[node] = _read_offsets(reply.content.pop(OFFSETS))
                except (TypeError, ValueError, KeyError):
                    log.warning("round %d, node %s: unreadable offsets", server_round, node)
        counts = Counter(map(len, self.offsets.values()))
        classes = len(self.border) or (counts.most_common(1)[0][0] if counts else 0)
        known = {node: told for node, told in self.offsets.items() if len(told) == classes}
        borders: Sequence[Offset | None] = self.border or [None] * classes
        by_class = [
            site_effects([told[k] for told in known.values()], borders[k]).moves
            for k in range(classes)
        ]
        self.moves = {
            node: [float(moves[place]) for moves in by_class] for place, node in enumerate(known)
        }
        return super().aggregate_train(server_round, answers)


def add_settings(message: Message, key: str, name: str, value: bytes | list[float]) -> None:
    """Add a setting to one node's message: Flower gives all nodes the same record."""
    settings = ConfigRecord({**message.content.config_records[key], name: value})
    message.content = RecordDict({**message.content, key: settings})


def _read_offsets(record: object) -> list[Offset]:
    """Return what a node told; a list of one number per class for each column."""
    if not isinstance(record, ConfigRecord):
        raise TypeError
    read = []
    for row in zip(*(record[name] for name in COLUMNS), strict=True):
        offset, error, cases, radius = map(float, row)
        if not (math.isfinite(offset) and error > 0 and 0 < cases <= MAX_CASES):
            read.append(Offset.unknown(0, "it could not be told"))
        elif abs(offset) > SIDE:
            raise ValueError
        else:
            read.append(Offset(offset, error, int(cases), radius=radius))
    return read
