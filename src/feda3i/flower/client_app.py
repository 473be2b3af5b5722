"""The site's side: a ``ClientApp`` that answers hello, survey, act, fit, measure and score.

A new process runs for every message, so nothing is kept in memory: cases are read again (from the
packed copy in the state folder), and site memory lies on disk. What leaves the site is built by
``feda3i.flower.records`` from declared values; texts about the site's files stay at the site.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from feda3i import __version__
from feda3i.core.messages import TASKS, Order
from feda3i.engine.host import SiteHost
from feda3i.engine.job import job_for
from feda3i.engine.scoring import Row, join_slices, means_of, score_cases
from feda3i.errors import DivergedError, FedA3IError, RecipeError, RunError, WireError
from feda3i.files import write_file
from feda3i.flower import records
from feda3i.flower.node import NodeSettings, open_data, recipe_at_site
from feda3i.flower.records import PROTOCOL, Header

app = ClientApp()
log = logging.getLogger("feda3i.site")


class Workplace:
    """A site, set up to answer one message."""

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
        self.check_site()
        if self.header.layout != self.station.layout.digest():
            raise WireError(
                "server and site build different networks from the recipe; install the same "
                "versions of feda3i and of the network's library on both sides"
            )

    def check_site(self) -> None:
        """Raise ``WireError`` unless the message is for this site."""
        if self.header.site != self.settings.site:
            raise WireError(f"an order for site '{self.header.site}' reached another site")


@dataclass(frozen=True)
class Answered:
    """The last order that a site answered in one run, in ``journal.json`` of its run folder."""

    folder: Path

    def last(self) -> tuple[int, str] | None:
        """Return round and task of the last answer, or ``None`` before the first."""
        try:
            entry = json.loads((self.folder / "journal.json").read_text())
            return int(entry["round"]), str(entry["task"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"the site's journal cannot be read: {type(error).__name__}") from None

    def notice(self, order: Order) -> str:
        """Return what is unusual about an order, or an empty string.

        A repeated order finds the memory it found the first time, so its answer is the same; a
        skipped round means that the site was away. Both are normal after a restart, but are told.
        """
        last = self.last()
        if last is None:
            return f"first order in round {order.round}" if order.round > 1 else ""
        tasks: tuple[str, ...] = TASKS
        place, before = (order.round, tasks.index(order.task)), (last[0], tasks.index(last[1]))
        if place <= before:
            return f"repeated: {order.task} of round {order.round} after {last[1]} of {last[0]}"
        if order.round > last[0] + 1:
            return f"skipped: round {order.round} after round {last[0]}"
        return ""

    def write(self, order: Order) -> None:
        """Note that an order was answered."""
        self.folder.mkdir(parents=True, exist_ok=True)
        entry = json.dumps({"round": order.round, "task": order.task})
        write_file(self.folder / "journal.json", entry.encode())


def _answer(message: Message, context: Context, work: Callable[[Workplace], RecordDict]) -> Message:
    """Do the work; whatever goes wrong becomes a refusal without a word about the site's files."""
    site = ""
    try:
        settings = NodeSettings.of(context.node_config)
        site = settings.site
        with settings.threading(), settings.limits():
            content = work(Workplace(message, context, settings))
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


def _hello(place: Workplace) -> RecordDict:
    layout = place.job.layout
    header = Header("hello", site=place.settings.site, layout=layout.digest())
    body = {
        "cases": len(place.data.index),
        "channels": place.job.format.channels,
        "classes": place.job.format.classes,
        "shape": list(place.job.format.shape),
        "version": __version__,
    }
    return records.write(header, body)


def _carry_out(place: Workplace) -> RecordDict:
    place.check()
    layout, wire = place.station.layout, place.job.method.wire
    order = records.read_order(place.content, place.header, place.body, layout, wire.networks)
    journal = Answered(place.settings.run_folder(place.header.run))
    notice = journal.notice(order)
    if notice:
        log.warning("%s", notice)
    reply = place.station.answer(order)
    journal.write(order)
    return records.write_reply(reply, place.header.run, place.header.layout, notice)


def _score(place: Workplace) -> RecordDict:
    place.check()
    params = records.read_params(place.content, place.station.layout, ("",))
    if "" not in params or place.body.get("split") not in ("train", "test", "validation"):
        raise WireError("expected parameters and a split: train, test or validation")
    cases, where = place.data.train, place.data.index
    if place.body["split"] == "validation":
        where = place.data.validation
    elif place.body["split"] == "test":
        cases = place.data.test or cases
        where = np.arange(len(cases) if place.data.test else 0)
    distances = bool(place.body.get("distances"))
    rows = join_slices(score_cases(place.station.predictor, params[""], cases, where, distances))
    header = Header("score", place.header.run, site=place.header.site, layout=place.header.layout)
    return records.write(header, {"rows": _means(rows, place.job.format.classes)})


def _means(rows: list[Row], classes: int) -> list[dict[str, Any]]:
    """Return one row of means per class: no score of a single case leaves the site."""
    return [
        {"class": k, "cases": len(own), **means_of(own)}
        for k in range(1, classes + 1)
        if (own := [row for row in rows if row["class"] == k])
    ]


WORK: dict[str, Callable[[Workplace], RecordDict]] = {
    "query.hello": _hello,
    "query.survey": _carry_out,
    "query.act": _carry_out,
    "query.measure": _carry_out,
    "train": _carry_out,
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
