"""The round loop: plan, survey, fit, merge, score, checkpoint. Both engines run this one."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from feda3i.core.messages import Missing, Order, Params, Plan, Replies, Reply, Task
from feda3i.core.server import Gathered, Server
from feda3i.core.wire import check_order_names, check_reply
from feda3i.engine import redrawing
from feda3i.engine.console import Listener
from feda3i.engine.events import EventLog
from feda3i.engine.guarding import Guard, UnsoundError
from feda3i.engine.interrupt import Interrupt
from feda3i.engine.job import Job
from feda3i.engine.notes import note_of_masks
from feda3i.engine.scoring import Row, mean_of
from feda3i.engine.transport import Transport
from feda3i.engine.validation import BestWatch
from feda3i.errors import DivergedError, RunError, WireError
from feda3i.metrics import SCORES


@dataclass
class Round:
    """One round: who is asked what, what the answers make of the model, and how it scores."""

    job: Job
    server: Server
    transport: Transport
    number: int
    listener: Listener
    scratch: Path
    interrupt: Interrupt = field(default_factory=Interrupt)
    guard: Guard | None = None

    def run(self) -> dict[str, Any]:
        """Do all of it; ``server.params`` and ``server.state`` are then those after it."""
        started = time.perf_counter()
        self.server.facts = {}
        if redrawing.is_wanted(self.job.recipe):
            self._learn_moves()
        plan = self.job.method.plan(self.server, self.number)
        if plan.survey is None or plan.survey:
            params = plan.survey_params or self.server.params
            told = self._ask_all("survey", self._sites_of(plan.survey), plan, params)
            self.job.method.digest(self.server, told)
            plan = self.job.method.plan(self.server, self.number)
        replies, params = self._fit(plan)
        try:
            self.server.layout.check(params)
        except WireError as error:
            kind = RunError if self.guard is None else UnsoundError
            raise kind(f"round {self.number}: of the merged network, {error}") from None
        self.server.params = params
        self.job.method.digest(self.server, replies)
        loss = replies.number("loss")
        return {
            "round": self.number,
            "asked": len(replies) + len(replies.missing),
            "answered": len(replies),
            "missing": {miss.site: miss.reason for miss in replies.missing},
            "loss": float(replies.share_of_cases() @ loss),
            "site_loss": dict(zip(replies.sites, loss.tolist(), strict=True)),
            "site_seconds": {reply.site: round(reply.seconds, 3) for reply in replies},
            "seconds": round(time.perf_counter() - started, 3),
            **self.server.facts,
        }

    def _learn_moves(self) -> None:
        if "redraw" not in self.server.state:
            redrawing.begin(self.server, self.job.recipe)
        if new := redrawing.unasked(self.server):
            told = self._ask_all("offsets", new, Plan(), self.server.params)
            for line in redrawing.take(self.server, told, self.job.recipe):
                self.listener.note(line)

    def _fit(self, plan: Plan) -> tuple[Replies, Params]:
        sites = self._who_trains(plan)
        cases = np.array([self.server.sites[site] for site in sites], dtype=np.float64)
        share = dict(zip(sites, (cases / cases.sum()).tolist(), strict=True))
        engine = self.job.recipe.engine
        gathered = Gathered(self.server.layout, len(sites), self.scratch, engine.max_share)
        kept: list[Reply] = []
        missing: list[Missing] = []
        for answer in self._ask("fit", sites, plan, self.server.params):
            if isinstance(answer, Missing):
                missing.append(answer)
                continue
            assert answer.params is not None  # the check of the wire has seen to it
            gathered.add(answer.params)
            kept.append(replace(answer, params=None))  # they are in the buffer
            self.listener.site(len(kept), len(sites))
        if self.guard is not None:
            self.guard.check(kept, missing)
        self._check_quorum(kept, missing)
        if self.guard is not None:
            kept, left_out = self.guard.leave_out(self.server, kept, gathered)
            missing += left_out
        replies = Replies("fit", self.number, tuple(kept), tuple(missing), engine.max_share)
        if plan.gather:
            return replies, self.job.method.merge(self.server, replies, gathered)
        if engine.max_share < 1:
            weights = replies.share_of_cases()  # the method asked for the plain average
            self.server.record(weights=dict(zip(replies.sites, weights.tolist(), strict=True)))
            return replies, gathered.combine(weights)
        whole = reduce(add, share.values(), 0.0)
        return replies, gathered.fold([share[site] for site in replies.sites], whole)

    def _ask_all(self, task: Task, sites: Sequence[str], plan: Plan, params: Params) -> Replies:
        """Return the answers to a task that sends no networks; who is missing is recorded."""
        answers = list(self._ask(task, sites, plan, params))
        kept = tuple(answer for answer in answers if isinstance(answer, Reply))
        missing = tuple(answer for answer in answers if isinstance(answer, Missing))
        if missing:
            self.server.record(**{f"{task}_missing": {miss.site: miss.reason for miss in missing}})
        return Replies(task, self.number, kept, missing)

    def _ask(
        self, task: Task, sites: Sequence[str], plan: Plan, params: Params
    ) -> Iterator[Reply | Missing]:
        """Yield the sites' answers; one that breaks the wire's rules is a ``Missing``."""
        wire = self.job.method.wire
        orders = []
        barred = {} if self.guard is None else self.guard.barred
        yield from (Missing(site, barred[site]) for site in sites if site in barred)
        for site in (site for site in sites if site not in barred):
            own = plan.site_settings.get(site, {})
            settings = {**plan.settings, **own, **redrawing.move_of(self.server, site)}
            networks = dict(plan.networks.get(site, {})) if task == "fit" else {}
            orders.append(Order(task, self.number, site, params, settings, networks))
            check_order_names(orders[-1], wire)
        for order, answer in zip(orders, self.transport.call(orders), strict=True):
            self.interrupt.check()
            if isinstance(answer, Missing):
                yield answer
                continue
            try:
                check_reply(answer, wire, self.server.layout, self.server.format.classes)
                _check_answer(answer, order, self.server.sites[order.site])
            except WireError as error:
                yield Missing(order.site, str(error), isinstance(error, DivergedError))
            else:
                yield answer

    def _who_trains(self, plan: Plan) -> list[str]:
        """Return the plan's sites; a share of all, drawn for this round, if it names none."""
        sites = self._sites_of(plan.sites)
        count = math.ceil(self.job.recipe.engine.fraction * len(sites) - 1e-9)
        if plan.sites is not None or count == len(sites):
            return sites
        drawn = self.server.rng("fraction", self.number).permutation(len(sites))[: max(count, 1)]
        return [sites[k] for k in sorted(drawn)]

    def _sites_of(self, wanted: tuple[str, ...] | None) -> list[str]:
        return sorted(self.server.sites if wanted is None else wanted)

    def _check_quorum(self, kept: Sequence[Reply], missing: Sequence[Missing]) -> None:
        barred = set() if self.guard is None else set(self.guard.barred)
        asked = len(kept) + sum(miss.site not in barred for miss in missing)
        least = self.job.recipe.engine.quorum(asked)
        if len(kept) < least:
            reasons = "; ".join(f"{miss.site}: {miss.reason}" for miss in missing[:3])
            raise RunError(
                f"round {self.number}: {len(kept)} of {asked} sites answered, "
                f"at least {least} must (engine.min_sites). {reasons}"
            )

    def validate(self, log: EventLog, watch: BestWatch) -> dict[str, Any]:
        """Score the global model on the validation cases if it is time; means go into the log."""
        if not watch.is_due(self.number, self.job.recipe.rounds):
            return {}
        rows = self._rows("validation", False)
        log.write("score", round=self.number, split="validation", rows=rows)
        return watch.take(self.number, self.server.params, rows)

    def score(self, log: EventLog, is_over: bool) -> dict[str, float]:
        """Score the global model if this round is to be scored; every case goes into the log."""
        recipe = self.job.recipe
        is_last = is_over or self.number == recipe.rounds
        if self.number % recipe.evaluate.every and not is_last:
            return {}
        started = time.perf_counter()
        rows = self._rows("test", recipe.evaluate.distances or is_last)
        seconds = round(time.perf_counter() - started, 3)
        log.write("score", round=self.number, split="test", rows=rows, seconds=seconds)
        if is_last and (at_sites := self._rows("train", False)):
            log.write("score", round=self.number, split="train", rows=at_sites)
        classes = sorted({row["class"] for row in rows})
        dice = {k: mean_of([row for row in rows if row["class"] == k], "dice") for k in classes}
        self.listener.scored(dice, note_of_masks(rows))
        return summarise_scores(rows)

    def _rows(self, split: str, distances: bool) -> list[Row]:
        rows = []
        models = self.job.method.models(self.server)
        for name, params in models.items():
            label = {"model": name} if len(models) > 1 else {}
            rows += [{**row, **label} for row in self.transport.score(params, split, distances)]
        return rows


def _check_answer(reply: Reply, order: Order, bound: int) -> None:
    found, expected = (reply.task, reply.round, reply.site), (order.task, order.round, order.site)
    if found != expected:
        raise WireError(f"expected an answer to {expected}, found one to {found}")
    if reply.cases != bound:
        raise WireError(f"it reported {reply.cases} cases, but had registered {bound}")


def summarise_scores(rows: Sequence[Row]) -> dict[str, float]:
    """Return the means of all scores over cases and classes."""
    return {name: mean_of(rows, name) for name in SCORES if rows and name in rows[0]}
