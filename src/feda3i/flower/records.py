"""Orders and replies as Flower records, and back, with every size bounded before it is read.

A message holds one ``ConfigRecord`` named ``header`` (who, what, which run, and a body of JSON
text) and, where parameters travel, one ``ArrayRecord`` named ``arrays`` with the two flat vectors
as plain bytes: no header of numpy's, which is read by evaluating Python, comes from outside.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from feda3i import __version__
from feda3i.core.layout import Layout
from feda3i.core.messages import Order, Params, Reply, Task
from feda3i.engine.events import mistake_of
from feda3i.errors import DivergedError, WireError, printable, shown

PROTOCOL = 3  # raised whenever the meaning of a message changes; both sides must have the same
MAX_TEXT = 2**22  # the longest body
RAW = "feda3i.little-endian"
"""How the bytes of an array are laid out, in Flower's field for the kind of serialisation."""
_HEADER = "header"
_Short = Annotated[str, Field(max_length=200)]
_T = TypeVar("_T")


@dataclass(frozen=True, config=ConfigDict(strict=True))
class Header:
    """What every message says of itself; ``layout`` is the digest of the network's layout."""

    kind: Task | Literal["hello", "score", "refusal"]
    run: _Short = ""
    round: int = 0
    site: _Short = ""
    layout: _Short = ""
    protocol: int = PROTOCOL
    body: Annotated[str, Field(max_length=MAX_TEXT)] = "{}"


class Strict(BaseModel):
    """Something from outside: declared fields only, and no value is turned into another."""

    model_config = ConfigDict(strict=True, extra="forbid")


def checked(kind: Callable[..., _T], values: Mapping[str, Any], where: str) -> _T:
    """Return values from outside as what they must be; raise ``WireError`` if they are not."""
    try:
        return kind(**values)
    except ValidationError as error:
        raise WireError(f"{where}, {printable(mistake_of(error), 300)}") from None


def write(
    header: Header, body: Mapping[str, Any], params: Mapping[str, ArrayRecord] | None = None
) -> RecordDict:
    """Return a message's content: header, JSON body and named parameters."""
    text = json.dumps(body, sort_keys=True)
    named = {_place(name): record for name, record in (params or {}).items()}
    return RecordDict({_HEADER: ConfigRecord({**vars(header), "body": text}), **named})


def _place(name: str) -> str:
    return f"arrays.{name}" if name else "arrays"


def read_header(content: RecordDict) -> tuple[Header, dict[str, Any]]:
    """Return header and body of a message of the same protocol."""
    record = dict(content.items()).get(_HEADER)
    if not isinstance(record, ConfigRecord):
        raise WireError("expected a feda3i message, found one without a header")
    if (protocol := record.get("protocol")) != PROTOCOL:
        raise WireError(
            f"it speaks protocol {shown(protocol)}, the other side {PROTOCOL}; install feda3i "
            f"{__version__} on both sides"
        )
    header = checked(Header, record, "the header of a message")
    try:
        return header, {**json.loads(header.body)}
    except (ValueError, RecursionError, TypeError):
        raise WireError("the body of a message is not JSON of an object") from None


def read_answer(content: RecordDict) -> tuple[Header, dict[str, Any]]:
    """Return header and body of a site's answer; raise its reason if the site refused."""
    header, body = read_header(content)
    if header.kind == "refusal":
        kind = DivergedError if body.get("diverged") is True else WireError
        raise kind(printable(body.get("reason", "it refused")))
    return header, body


def pack_params(params: Params) -> ArrayRecord:
    """Return parameters as one record of two arrays."""
    return ArrayRecord({"values": raw_array(params.values), "counts": raw_array(params.counts)})


def raw_array(vector: NDArray[Any]) -> Array:
    """Return an array as its type, its shape and its bytes."""
    data = vector.astype(vector.dtype.newbyteorder("<"), copy=False).tobytes()
    return Array(str(vector.dtype), vector.shape, RAW, data)


def read_params(content: RecordDict, layout: Layout, names: Sequence[str]) -> dict[str, Params]:
    """Return the parameters of these names, and of no other; ``""`` is the network itself."""
    allowed = {_place(name): name for name in names}
    found: dict[str, Params] = {}
    for key, record in content.items():
        if key == _HEADER:
            continue
        if key not in allowed or not isinstance(record, ArrayRecord):
            raise WireError(f"the message holds {shown(key)}, which was not declared")
        if set(record) != {"values", "counts"}:
            raise WireError(f"expected values and counts, found {shown(sorted(record), 300)}")
        found[allowed[key]] = Params(
            _vector_in(record, "values", "float32", layout.size),
            _vector_in(record, "counts", "int64", layout.integers),
        )
    if "" in names and "" not in found:
        raise WireError("expected a message with parameters")
    return found


def _vector_in(record: ArrayRecord, name: str, dtype: str, length: int) -> NDArray[Any]:
    array, kind = record[name], np.dtype(dtype).newbyteorder("<")
    found = (array.stype, array.dtype, tuple(array.shape), len(array.data))
    if found != (RAW, dtype, (length,), kind.itemsize * length):
        raise WireError(
            f"'{name}': expected {dtype} of shape ({length},), found {shown(array.dtype)} of shape "
            f"{shown(tuple(array.shape))} as {len(array.data)} bytes of {shown(array.stype)}"
        )
    return np.frombuffer(array.data, kind).astype(dtype)  # a copy: the message may be forgotten


def write_order(order: Order, run: str, layout: str, params: ArrayRecord) -> RecordDict:
    """Return an order as records; ``params`` is shared by the orders of all sites."""
    header = Header(order.task, run, order.round, order.site, layout)
    networks = {name: pack_params(other) for name, other in order.networks.items()}
    return write(header, {"settings": dict(order.settings)}, {"": params, **networks})


def read_order(
    content: RecordDict, header: Any, body: Mapping[str, Any], layout: Layout, names: Sequence[str]
) -> Order:
    """Return the order in a message; ``names`` are those of the further networks it may hold."""
    params = read_params(content, layout, ("", *names))
    if not isinstance(settings := body.get("settings"), dict):
        raise WireError("an order without settings")
    return Order(header.kind, header.round, header.site, params.pop(""), settings, params)


def write_reply(reply: Reply, run: str, layout: str) -> RecordDict:
    """Return a reply as records."""
    header = Header(reply.task, run, reply.round, reply.site, layout)
    body = {"cases": reply.cases, "numbers": reply.numbers, "seconds": reply.seconds}
    return write(header, body, {"": pack_params(reply.params)} if reply.params else None)


def read_reply(content: RecordDict, header: Any, body: Mapping[str, Any], layout: Layout) -> Reply:
    """Return the reply in a message; ``check_reply`` looks at what its body says."""
    params = read_params(content, layout, ("",) if header.kind == "fit" else ()).get("")
    if set(body) != {"cases", "numbers", "seconds"} or not isinstance(body["numbers"], dict):
        raise WireError(f"expected a reply of cases, numbers and seconds, found {shown(body)}")
    return Reply(header.kind, header.round, header.site, params=params, **body)
