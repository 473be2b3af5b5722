"""A worker process: read orders from standard input, write answers to standard output."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from feda3i.core.cases import Cases, Federation, Index
from feda3i.core.format import Format
from feda3i.core.messages import Order
from feda3i.core.trees import pack, unpack
from feda3i.engine.host import SiteHost
from feda3i.engine.job import Job
from feda3i.engine.scoring import score_cases
from feda3i.engine.transport import one_thread, scored_cases
from feda3i.engine.workers import open_file, read_frame, write_frame
from feda3i.errors import RunError, WireError
from feda3i.failures import message_of
from feda3i.recipe import validate


def main() -> None:
    """Answer frames until standard input ends, which it does when the server is gone."""
    # Standard output carries frames: anything a library prints must go elsewhere.
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        hello = unpack(read_frame(sys.stdin.buffer))
        federation = open_shared(hello["data"])
        recipe = validate(hello["recipe"])
        own = recipe.engine.model_copy(update={"device": hello["device"]})
        recipe = recipe.model_copy(update={"engine": own})
        job = Job(recipe, Format.from_dict(hello["format"]))
        with one_thread():
            station = SiteHost(job, federation.train, federation.sites, Path(hello["memory"]))
            truth = scored_cases(federation)
            params = None
            while True:
                request = unpack(read_frame(sys.stdin.buffer))
                # Parameters come once per round; a request without them means the same again.
                inner = request.get("order", request)
                params = inner["params"] = inner["params"] or params
                write_frame(pipe, pack(_answer(station, truth, request)))
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        print(f"feda3i worker: {message_of(error)[0]}", file=sys.stderr)
        sys.exit(1)


def _answer(
    station: SiteHost, truth: dict[str, tuple[Cases, Index]], request: Any
) -> dict[str, Any]:
    try:
        if request["do"] == "answer":
            return {"reply": vars(station.answer(Order(**request["order"])))}
        cases, every = truth[request["split"]]
        where = every[request["start"] : request["stop"]]
        rows = score_cases(station.predictor, request["params"], cases, where, request["distances"])
        return {"rows": rows}
    except (RunError, WireError) as error:
        return {"missing": str(error)}
    except Exception as error:  # also of a plug-in: the server tells it, with its place
        return {"failure": message_of(error)[0]}


def open_shared(data: dict[str, Any]) -> Federation:
    """Open the federation that ``feda3i.engine.workers.share`` described."""
    for split in ("train", "test"):
        fields = _with_tuples(data[split])
        stacks = {name: open_file(fields[name]) for name in ("images", "masks")}
        data[split] = Cases(**{**fields, **stacks})
    if data["clean_masks"] is not None:
        data["clean_masks"] = open_file(data["clean_masks"])
    return Federation(**_with_tuples(data))


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields as they were before they travelled: what is a list was a tuple."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}


if __name__ == "__main__":
    main()
