"""What a hostile site may send: every reply here must cost that site and nobody else.

The fast tests put these between nodes and server of one process; the slow ones let a real node send
them to a real server.
"""

import json
import math

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message

from feda3i.core.wire import MAX_VALUE
from feda3i.flower import records

HUGE = 10**400
UGLY = "\x1b[2J\x1b]0;owned\x07 a\rb \u202egpj \ud800\x9b"


def forge(reply, **changes):
    """Change fields of the body."""
    body = {**json.loads(reply.content["header"]["body"]), **changes}
    reply.content["header"] = ConfigRecord({**reply.content["header"], "body": json.dumps(body)})
    return reply


def with_body(**changes):
    return lambda reply: forge(reply, **changes)


def only(site, kind, change, rounds=None):
    """Return a tamper function that changes messages of one kind from one site."""

    def tamper(name, reply):
        if reply.has_error() or name != site:
            return reply
        header = reply.content["header"]
        is_meant = header["kind"] == kind and (rounds is None or header["round"] in rounds)
        return change(reply) if is_meant else reply

    return tamper


def with_header(**changes):
    """Change fields of the header."""

    def spoil(reply):
        reply.content["header"] = ConfigRecord({**reply.content["header"], **changes})
        return reply

    return spoil


def with_arrays(record="arrays", **changes):
    """Put arrays into a record of the message: given ones, or what a function makes of a vector."""

    def spoil(reply):
        arrays = dict(reply.content.array_records.get(record, {}))
        for name, change in changes.items():
            made = change
            if not isinstance(change, Array):
                before = arrays[name]
                made = records.raw_array(change(np.frombuffer(before.data, before.dtype).copy()))
            arrays[name] = made
        reply.content[record] = ArrayRecord(arrays)
        return reply

    return spoil


def with_values(change):
    return with_arrays(values=change)


def with_bytes(data, dtype="float32", shape=(3,), stype=records.RAW):
    """Send something else in the place of the values."""
    return with_arrays(values=Array(dtype, shape, stype, data))


def npy(header):
    """Return the beginning of a numpy file with any header."""
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


HEADERS = ["(" * 50, "'''abc", "(1L,", "{'descr': ('<f4',), 'fortran_order': False, 'shape': (1,)}"]
"""Each ended a run when numpy read it: TokenError, SyntaxError and IndexError."""


def one(value):
    return lambda vector: np.concatenate([vector[:3], [value], vector[4:]]).astype(vector.dtype)


FORGED = {
    "huge loss": (with_body(numbers={"loss": HUGE}), "'loss': expected a number from"),
    "true as loss": (with_body(numbers={"loss": True}), "expected a number from"),
    "NaN as loss": (with_body(numbers={"loss": math.nan}), "finite"),
    "text as loss": (with_body(numbers={"loss": UGLY}), "expected a number from"),
    "far too large a loss": (with_body(numbers={"loss": 1e300}), "1e+30"),
    "huge seconds": (with_body(seconds=HUGE), "seconds"),
    "negative seconds": (with_body(seconds=-1), "seconds"),
    "NaN as seconds": (with_body(seconds=math.nan), "seconds"),
    "true as seconds": (with_body(seconds=True), "seconds"),
    "huge cases": (with_body(cases=HUGE), "number of cases"),
    "negative cases": (with_body(cases=-3), "number of cases"),
    "true as cases": (with_body(cases=True), "number of cases"),
    "a float as cases": (with_body(cases=3.0), "number of cases"),
    "ten times its cases": (with_body(cases=30), "30 cases, but had registered"),
    "3e38": (with_values(one(3e38)), "3e+38"),
    "-3e38": (with_values(one(-3e38)), "3e+38"),
    "infinite": (with_values(one(-np.inf)), "infinite"),
    **{
        f"npy header {text[:9]}": (with_bytes(npy(text), stype="numpy.ndarray"), "expected float32")
        for text in HEADERS
    },
    "a raw npy header": (with_bytes(npy(HEADERS[0])), "60 bytes of"),
    "a negative shape": (with_bytes(b"", shape=(-1,)), "of shape"),
    "a type of objects": (with_bytes(b"", "object"), "'object'"),
    "NaN": (with_values(one(np.nan)), "NaN"),
    "too short": (with_values(lambda v: v[:-1].copy()), "of shape"),
    "too long": (with_values(lambda v: np.tile(v, 9)), "of shape"),
    "another type": (with_values(lambda v: v.astype(np.float16)), "float16"),
    "an undeclared array": (with_arrays(pixels=Array(np.zeros((8, 8), np.uint8))), "pixels"),
    "an undeclared record": (with_arrays("gradients", g=Array(np.zeros(3))), "gradients"),
    "an undeclared number": (with_body(numbers={"loss": 1.0, "age": 61.0}), "age"),
    "another run": (with_header(run="f" * 32), "expected an answer to"),
    "another site's name": (with_header(site="site-01"), "expected an answer to"),
    "an older protocol": (with_header(protocol=0), "protocol 0"),
    "no JSON": (with_header(body="{"), "not JSON"),
    "a huge text": (with_header(body=" " * (records.MAX_TEXT + 1)), "at most"),
    "a count near its end": (with_arrays(counts=one(2**63 - 1)), "integer buffers"),
    "negative variances": (with_values(lambda v: -np.abs(v)), "variances"),
    "an ugly name": (with_body(numbers={"loss": 1.0, UGLY: 1.0}), r"\x1b"),
    "an ugly refusal": (lambda r: with_header(kind="refusal")(forge(r, reason=UGLY)), r"\x1b"),
    "an ugly error": (lambda r: Message(Error(8, UGLY), reply_to=r), r"crashed (\x1b"),
}


class Garbage(ConfigRecord):
    """A record whose bytes are not those of a record."""

    def deflate(self):
        from flwr.supercore.inflatable.inflatable_object import add_header_to_object_body

        return add_header_to_object_body(object_body=b"\xff\xfe\x1b[2J", obj=self)


Garbage.__qualname__ = "ConfigRecord"  # Flower looks up by this name what to make of the bytes


def with_garbage(reply):
    reply.content["header"] = Garbage(reply.content["header"])
    return reply


# Fails where Flower puts the message together, before anything of ours sees it.
UNREADABLE = {"bytes of no record": (with_garbage, "cannot be read")}


def add_noise(vector):
    """Return values with noise; variances stay above zero."""
    noise = np.random.default_rng(7).normal(0, 100.0, len(vector))
    return (vector + np.abs(noise)).astype(np.float32)


with_noise = with_values(add_noise)
at_the_limit = with_values(lambda vector: np.full_like(vector, MAX_VALUE))
"""The largest value that is allowed, everywhere."""


def with_survey(reply, value=HUGE):
    """Answer a survey with numbers that no survey gives."""
    numbers = json.loads(reply.content["header"]["body"])["numbers"]
    return forge(reply, numbers={name: [value] * len(old) for name, old in numbers.items()})


HELLOS = [
    *({"cases": cases} for cases in (HUGE, 10**15, True, 0)),
    {"channels": HUGE},
    {"classes": -1},
    *({"shape": shape} for shape in ([HUGE, 32], [65536, 65536], [32, math.nan], "32")),
]
