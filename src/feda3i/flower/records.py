"""Orders and replies as Flower records, and back, with every size bounded before it is read.

A message holds one ``ConfigRecord`` named ``header`` (who, what, which run, and a body of JSON
text) and, where parameters travel, one ``ArrayRecord`` named ``arrays`` with the two flat vectors.
Two vectors instead of one array per tensor: the bytes on the wire are those of the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from feda3i.core.layout import Layout
from feda3i.core.messages import TASKS, Order, Params, Reply, Task
from feda3i.core.wire import MAX_SECONDS, check_range
from feda3i.errors import WireError, printable, shown, summary

PROTOCOL = 1
"""Raised whenever the meaning of a message changes; both sides must have the same."""
MAX_TEXT = 2**22
"""The longest body: the statistics of 80,000 channels of BatchNorm are the largest numbers."""
MAX_FIELD = 200
"""The longest text in a header."""
_NPY_HEADER = 256
_HEADER, _ARRAYS = "header", "arrays"


@dataclass(frozen=True)
class Header:
    """What every message says of itself.

    ``kind`` is the task, ``"hello"``, ``"score"`` or ``"refusal"``; ``run`` names the run in all
    its parts, also after a resume; ``layout`` is the digest of the network's layout.
    """

    kind: str
    run: str = ""
    round: int = 0
    site: str = ""
    layout: str = ""
    protocol: int = PROTOCOL


def write(
    header: Header, body: Mapping[str, Any], params: Mapping[str, ArrayRecord] | None = None
) -> RecordDict:
    """Return a message's content: header, JSON body and named parameters."""
    text = json.dumps(body, sort_keys=True)
    if len(text) > MAX_TEXT:
        raise WireError(f"expected a body of at most {MAX_TEXT} bytes, found {len(text)}")
    records: dict[str, Any] = {_HEADER: ConfigRecord({**vars(header), "body": text})}
    for name, record in (params or {}).items():
        records[f"{_ARRAYS}.{name}" if name else _ARRAYS] = record
    return RecordDict(records)


def read_header(content: RecordDict) -> tuple[Header, dict[str, Any]]:
    """Return header and body; a header of another protocol is returned, not refused."""
    record = dict(content.items()).get(_HEADER)
    if not isinstance(record, ConfigRecord):
        raise WireError("expected a feda3i message, found one without a header")
    fields = dict(record)
    text = fields.pop("body", "{}")
    kinds = {"kind": str, "run": str, "round": int, "site": str, "layout": str, "protocol": int}
    known = {name: fields.get(name) for name in kinds}
    if any(type(known[name]) is not kind for name, kind in kinds.items()):
        found = shown(sorted(fields), 300)
        raise WireError(f"expected the header fields {', '.join(kinds)}, found {found}")
    if any(isinstance(value, str) and len(value) > MAX_FIELD for value in known.values()):
        raise WireError(f"expected header fields of at most {MAX_FIELD} characters")
    header = Header(**cast(Any, known))
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        raise WireError(f"expected a body of at most {MAX_TEXT} bytes of JSON")
    if header.protocol != PROTOCOL:
        return header, {}
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError("the body of a message is not JSON") from None
    if not isinstance(body, dict):
        raise WireError("the body of a message is not an object")
    return header, body


def pack_params(params: Params) -> ArrayRecord:
    """Return parameters as one record of two arrays."""
    return ArrayRecord({"values": Array(params.values), "counts": Array(params.counts)})


def read_params(content: RecordDict, layout: Layout, names: tuple[str, ...]) -> dict[str, Params]:
    """Return the parameters in a message by name; ``""`` is the network itself.

    Anything that is not the header or one of ``names`` is an error, and so is an array whose size
    is not the network's: it is refused before it is unpacked.
    """
    allowed = {f"{_ARRAYS}.{name}" if name else _ARRAYS: name for name in names}
    found: dict[str, Params] = {}
    for key, record in content.items():
        if key == _HEADER:
            continue
        if key not in allowed or not isinstance(record, ArrayRecord):
            raise WireError(f"the message holds {shown(key)}, which was not declared")
        if set(record) != {"values", "counts"}:
            raise WireError(
                f"expected the arrays values and counts, found {shown(sorted(record), 300)}"
            )
        found[allowed[key]] = Params(
            _unpack(record["values"], "values", np.dtype(np.float32), layout.size),
            _unpack(record["counts"], "counts", np.dtype(np.int64), layout.integers),
        )
    return found


def _unpack(array: Array, name: str, dtype: np.dtype[Any], length: int) -> NDArray[Any]:
    most = dtype.itemsize * length + _NPY_HEADER
    if len(array.data) > most:
        raise WireError(f"'{name}': expected at most {most} bytes, found {len(array.data)}")
    try:
        vector: NDArray[Any] = array.numpy()  # flwr reads with allow_pickle=False
    except (ValueError, TypeError, EOFError, OSError, MemoryError, OverflowError) as error:
        raise WireError(f"'{name}' is not an array: {summary(error)}") from None
    if vector.dtype != dtype or vector.shape != (length,):
        raise WireError(
            f"'{name}': expected {dtype} of shape ({length},), found {vector.dtype} of shape "
            f"{vector.shape}"
        )
    return vector


def size_of(content: RecordDict) -> int:
    """Return the bytes of all records of a message."""
    return sum(_size(record) for record in content.values())


def _size(record: Any) -> int:
    if isinstance(record, ConfigRecord):  # flwr's own count fails on empty texts
        values = record.values()
        return sum(len(v) if isinstance(v, str | bytes) else 8 for v in (*record, *values))
    return int(record.count_bytes())


# -- orders and replies ---------------------------------------------------------------------------


def write_order(order: Order, run: str, layout: str, params: ArrayRecord) -> RecordDict:
    """Return an order as records; ``params`` is shared by the orders of all sites."""
    header = Header(order.task, run, order.round, order.site, layout)
    networks = {name: pack_params(other) for name, other in order.networks.items()}
    return write(header, {"settings": dict(order.settings)}, {"": params, **networks})


def read_order(
    content: RecordDict, header: Header, body: dict[str, Any], layout: Layout, networks: Any
) -> Order:
    """Return the order in a message; ``networks`` names the further ones it may hold."""
    params = read_params(content, layout, ("", *networks))
    settings = body.get("settings")
    if "" not in params or not isinstance(settings, dict):
        raise WireError("an order without parameters or settings")
    network = params.pop("")
    return Order(_task(header.kind), header.round, header.site, network, settings, params)


def write_reply(reply: Reply, run: str, layout: str, notice: str = "") -> RecordDict:
    """Return a reply as records."""
    header = Header(reply.task, run, reply.round, reply.site, layout)
    body: dict[str, Any] = {
        "cases": reply.cases,
        "numbers": reply.numbers,
        "seconds": reply.seconds,
    }
    params = None if reply.params is None else {"": pack_params(reply.params)}
    return write(header, {**body, "notice": notice} if notice else body, params)


def read_reply(
    content: RecordDict, header: Header, body: dict[str, Any], layout: Layout
) -> tuple[Reply, str]:
    """Return the reply in a message and the site's notice, which is empty as a rule."""
    task = _task(header.kind)
    params = read_params(content, layout, ("",) if task == "fit" else ())
    unknown = set(body) - {"cases", "numbers", "seconds", "notice"}
    numbers, seconds = body.get("numbers"), body.get("seconds")
    if unknown or not isinstance(numbers, dict):
        found = shown(sorted(body), 300)
        raise WireError(f"expected cases, numbers and seconds in a reply, found {found}")
    check_range("the seconds of a reply", seconds, 0, MAX_SECONDS)
    reply = Reply(
        task,
        header.round,
        header.site,
        cast(Any, body.get("cases")),  # the wire checks what it is
        numbers,
        params.get(""),
        seconds=float(cast(Any, seconds)),
    )
    return reply, printable(body.get("notice", ""), 200)


def _task(kind: str) -> Task:
    if kind not in TASKS:
        raise WireError(f"expected one of {', '.join(TASKS)}, found {shown(kind, 40)}")
    return kind
