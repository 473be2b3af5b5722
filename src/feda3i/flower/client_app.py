"""The site's side: a ``ClientApp`` that answers hello, offsets, survey, fit and score.

A new process runs for every message, so nothing is kept in memory: cases are read again (from the
packed copy in the state folder), and site memory lies on disk. What leaves the site is built by
``feda3i.flower.records`` from declared values; texts about the site's files stay at the site.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from feda3i import __version__
from feda3i.engine.host import SiteHost
from feda3i.engine.job import job_for
from feda3i.engine.scoring import Row, join_slices, means_of, score_cases
from feda3i.errors import DivergedError, FedA3IError, RecipeError, RunError, WireError
from feda3i.flower import records
from feda3i.flower.node import NodeSettings, open_data, recipe_at_site
from feda3i.flower.records import PROTOCOL, Header

app = ClientApp()
log = logging.getLogger("feda3i.site")


class Request:
    """A message to this site, and what the site needs to answer it."""

    def __init__(self, message: Message, context: Context, settings: NodeSettings) -> None:
        self.content = message.content
        self.header, self.body = records.read_header(message.content)
        if self.header.protocol != PROTOCOL:
            raise WireError(
                f"the server speaks protocol {self.header.protocol}, this site {PROTOCOL} "
                f"(feda3i {__version__}); install the same version on both sides"
            )
        self.settings = settings
        self.recipe = recipe_at_site(context.run_config.get("recipe"), settings)
        self.data = open_data(self.recipe, settings)
        self.job = job_for(self.recipe, self.data.train, self.data.classes)

    @cached_property
    def station(self) -> SiteHost:
        """The station that answers for this site alone, with its memory on this site's disk."""
        folder = self.settings.run_folder(self.header.run)
        sites = {self.settings.site: self.data.index}
        return SiteHost(self.job, self.data.train, sites, folder / "memory")

    def check(self) -> None:
        """Raise ``WireError`` unless the message is for this site and this network."""
        if self.header.site != self.settings.site:
            raise WireError(f"an order for site '{self.header.site}' reached another site")
        if self.header.layout != self.station.layout.digest():
            raise WireError(
                "server and site build different networks from the recipe; install the same "
                "versions of feda3i and of the network's library on both sides"
            )


def _answer(message: Message, context: Context, work: Callable[[Request], RecordDict]) -> Message:
    """Do the work; whatever goes wrong becomes a refusal without a word about the site's files."""
    site = ""
    try:
        settings = NodeSettings.of(context.node_config)
        site = settings.site
        with settings.threading(), settings.limits():
            content = work(Request(message, context, settings))
    except (RecipeError, RunError, WireError) as error:
        log.error("%s", error)
        reason = _without_paths(str(error), context)
        content = _refusal(site, reason, isinstance(error, DivergedError))
    except FedA3IError as error:
        log.error("%s", error)
        content = _refusal(site, "the site's data cannot be used; see the site's log")
    except Exception as error:  # Flower would send the text of any other error to the server
        log.exception("the message could not be answered")
        content = _refusal(site, f"{type(error).__name__}; see the site's log")
    return Message(content, reply_to=message)


def _hello(request: Request) -> RecordDict:
    layout = request.job.layout
    header = Header("hello", site=request.settings.site, layout=layout.digest())
    body = {
        "cases": len(request.data.index),
        "channels": request.job.format.channels,
        "classes": request.job.format.classes,
        "shape": list(request.job.format.shape),
        "version": __version__,
    }
    return records.write(header, body)


def _order(request: Request) -> RecordDict:
    request.check()
    layout, wire = request.station.layout, request.job.method.wire
    order = records.read_order(request.content, request.header, request.body, layout, wire.networks)
    reply = request.station.answer(order)
    return records.write_reply(reply, request.header.run, request.header.layout)


def _score(request: Request) -> RecordDict:
    request.check()
    params = records.read_params(request.content, request.station.layout, ("",))
    if "" not in params or request.body.get("split") not in ("train", "test", "validation"):
        raise WireError("expected parameters and a split: train, test or validation")
    cases, where = request.data.train, request.data.index
    if request.body["split"] == "validation":
        where = request.data.validation
    elif request.body["split"] == "test":
        cases = request.data.test or cases
        where = np.arange(len(cases) if request.data.test else 0)
    distances = bool(request.body.get("distances"))
    rows = join_slices(score_cases(request.station.predictor, params[""], cases, where, distances))
    return records.write(request.header, {"rows": _means(rows, request.job.format.classes)})


def _means(rows: list[Row], classes: int) -> list[dict[str, Any]]:
    """Return one row of means per class: no score of a single case leaves the site."""
    return [
        {"class": k, "cases": len(own), **means_of(own)}
        for k in range(1, classes + 1)
        if (own := [row for row in rows if row["class"] == k])
    ]


WORK: dict[str, Callable[[Request], RecordDict]] = {
    "query.hello": _hello,
    "query.offsets": _order,
    "query.survey": _order,
    "train": _order,
    "evaluate": _score,
}
"""What a site does on each kind of message."""

for kind, work in WORK.items():
    register, _, action = kind.partition(".")
    getattr(app, register)(action or "default")(
        lambda message, context, work=work: _answer(message, context, work)
    )


def _refusal(site: str, reason: str, has_diverged: bool = False) -> RecordDict:
    body = {"reason": reason[:1000], **({"diverged": True} if has_diverged else {})}
    return records.write(Header("refusal", site=site), body)


def _without_paths(text: str, context: Context) -> str:
    for key in ("data-dir", "state-dir"):
        path = str(context.node_config.get(key, ""))
        text = text.replace(path, f"<{key}>") if path else text
    return text
