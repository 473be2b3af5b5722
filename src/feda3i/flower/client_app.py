"""The site's side: a ``ClientApp`` that answers hello, orders and questions for scores.

A new process runs for every message, so nothing is kept in memory: cases are read again (from the
packed copy in the state folder), and site memory lies on disk. What leaves the site is built by
``feda3i.flower.records`` from declared values; texts about the site's files stay at the site.
"""

import logging
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import torch
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from feda3i import __version__
from feda3i.core.cases import Cases, Federation
from feda3i.engine.host import SiteHost
from feda3i.engine.job import job_for
from feda3i.engine.scoring import Row, join_slices, score_cases, site_means
from feda3i.engine.transport import one_thread
from feda3i.errors import DivergedError, FedA3IError, RecipeError, RunError, WireError
from feda3i.flower import records
from feda3i.flower.node import NodeSettings, open_data
from feda3i.flower.records import Header

app = ClientApp()
log = logging.getLogger("feda3i.site")


@app.query()
def query(message: Message, context: Context) -> Message:
    """Answer a message of the server."""
    return answer(message, context)


def answer(message: Message, context: Context) -> Message:
    """Do the work; whatever goes wrong becomes a refusal without a word about the site's files."""
    site = ""
    try:
        settings = NodeSettings.of(context.node_config)
        site = settings.site
        torch.set_num_threads(settings.threads)
        with one_thread() if settings.threads == 1 else nullcontext(), settings.limits():
            content = _work(message.content, context, settings)
    except (RecipeError, RunError, WireError) as error:
        log.error("%s", error)
        reason = str(error)
        for key in ("data-dir", "state-dir"):
            if path := str(context.node_config.get(key, "")):
                reason = reason.replace(path, f"<{key}>")
        content = _refusal(site, reason, isinstance(error, DivergedError))
    except FedA3IError as error:
        log.error("%s", error)
        content = _refusal(site, "the site's data cannot be used; see the site's log")
    except Exception as error:  # Flower would send the text of any other error to the server
        log.exception("the message could not be answered")
        content = _refusal(site, f"{type(error).__name__}; see the site's log")
    return Message(content, reply_to=message)


def _work(content: RecordDict, context: Context, settings: NodeSettings) -> RecordDict:
    header, body = records.read_header(content)
    recipe = settings.accept(context.run_config)
    data = open_data(recipe, settings)
    job = job_for(recipe, data.train, len(data.classes))
    if header.kind == "hello":
        about = {"classes": job.format.classes, "shape": list(job.format.shape)}
        about |= {"cases": len(data.sites[settings.site]), "channels": job.format.channels}
        hello = Header("hello", site=settings.site, layout=job.layout.digest())
        return records.write(hello, {**about, "version": __version__})
    if header.site != settings.site:
        raise WireError(f"an order for site '{header.site}' reached another site")
    if header.layout != job.layout.digest():
        raise WireError(
            "server and site build different networks from the recipe; install the same versions "
            "of feda3i and of the network's library on both sides"
        )
    memory = settings.run_folder(header.run) / "memory"
    host = SiteHost(job, data.train, {header.site: data.sites[header.site]}, memory)
    if header.kind == "score":
        return records.write(header, {"rows": _scores(host, data, header.site, content, body)})
    order = records.read_order(content, header, body, host.layout, job.method.wire.networks)
    return records.write_reply(host.answer(order), header.run, header.layout)


def _scores(
    host: SiteHost, data: Federation, site: str, content: RecordDict, body: dict[str, Any]
) -> list[Row]:
    """Return one row of means per class: no score of a single case leaves the site."""
    params = records.read_params(content, host.layout, ("",))
    splits: dict[str, tuple[Cases, Iterable[int]]] = {
        "train": (data.train, data.sites[site]),
        "validation": (data.train, data.validation.get(site, ())),
        "test": (data.test, range(len(data.test))),
    }
    if body.get("split") not in splits:
        raise WireError(f"expected a split: {', '.join(splits)}")
    asked = *splits[body["split"]], bool(body.get("distances"))
    rows = join_slices(score_cases(host.predictor, params[""], *asked))
    return site_means([{**row, "site": site} for row in rows])


def _refusal(site: str, reason: str, has_diverged: bool = False) -> RecordDict:
    body = {"reason": reason[:1000], **({"diverged": True} if has_diverged else {})}
    return records.write(Header("refusal", site=site), body)
