"""The round loop's orders over Flower's grid, with its own polling, deadlines and a quorum.

Every order is one message. Replies are pulled one at a time and handed on in the order of the
orders. A site that is offline, or that is restarted in the middle of a round, is asked (again) as
soon as it is back, while there is time: an order can be repeated without harm, because site memory
is kept per round at the site.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, RecordDict

from feda3i.core.cases import Cases
from feda3i.core.messages import Missing, Order, Params, Reply
from feda3i.core.predictor import Predictor
from feda3i.core.wire import MAX_CASES, MAX_NUMBER, check_range, check_reply, check_whole
from feda3i.engine.job import Job
from feda3i.engine.scoring import Row, join_slices, score_cases
from feda3i.errors import DivergedError, WireError, printable, shown
from feda3i.files import write_file
from feda3i.flower import records
from feda3i.flower.mail import LOST, reason_of
from feda3i.flower.records import PROTOCOL, Header
from feda3i.flower.roster import Roster
from feda3i.metrics import SCORES

TYPES = {"fit": "train", "score": "evaluate"}
"""Flower's types of messages; whatever else a site is asked is a query of that name."""
_LOOK_AROUND = 1.0
"""Seconds between two looks at who is connected."""
_SHARE, _LONGEST = 0.02, 2.0
"""Seconds between two looks for answers: this share of the time waited so far, and the most."""


@dataclass
class _Asked:
    """One site's question on its way: not sent, sent, or with an answer (``Missing`` is one)."""

    site: str
    content: RecordDict
    kind: str
    messages: list[str] = field(default_factory=list)
    start: str = ""
    answer: Any = None
    reason: str = ""
    sent: float | None = None


class FlowerTransport:
    """Ask sites through Flower's grid.

    ``run`` is the run's identifier, the same after a resume. ``test`` are the server's own test
    cases; without them, sites score on theirs. In the run folder, ``state/sites.json`` remembers
    who took part. ``poll`` is the pause in seconds between two polls at the beginning of a round.
    """

    is_remote = True

    def __init__(
        self,
        roster: Roster,
        job: Job,
        run: str,
        *,
        folder: Path,
        test: Cases | None = None,
        poll: float = 0.2,
    ) -> None:
        self.roster, self.job, self.run = roster, job, run
        self.test, self.poll = test, poll
        self._sites = folder / "state" / "sites.json"
        self.layout, self._digest = job.layout, job.layout.digest()
        self._facts: dict[str, Any] = {}
        self._predictor: Predictor | None = None

    def sites(self) -> dict[str, int]:
        """Return every site that was ever there; newcomers are found here."""
        if not self.roster.remembered and self._sites.exists():
            self.roster.bind(json.loads(self._sites.read_text("utf-8")))
        self.roster.refresh()
        cases = self.roster.cases()
        if cases != self.roster.remembered:
            write_file(self._sites, json.dumps(cases).encode())
            self.roster.remembered = cases
        return cases

    def facts(self) -> dict[str, Any]:
        """Return what happened on the network since the last call, for the event log."""
        facts, self._facts = self._facts, {}
        of_roster = {
            "absent": self.roster.absent(),
            "refused": dict(self.roster.refused),
            "versions": self.roster.versions(),
            "refusals": self.roster.refusals,
        }
        self.roster.refusals = []
        return facts | {name: value for name, value in of_roster.items() if value}

    def close(self) -> None:
        """Do nothing: the grid belongs to Flower."""

    # -- orders -----------------------------------------------------------------------------------

    def call(self, orders: Sequence[Order]) -> Iterator[Reply | Missing]:
        """Yield one answer per order, in the order of the orders."""
        packed: dict[int, ArrayRecord] = {}
        asked = []
        for order in orders:
            # One record for all sites: it is packed and hashed once, and uploaded once.
            if id(order.params) not in packed:
                packed[id(order.params)] = records.pack_params(order.params)
            record = packed[id(order.params)]
            content = records.write_order(order, self.run, self._digest, record)
            asked.append(_Asked(order.site, content, order.task))
        # Nobody waits for the quorum of a survey: who is away is asked in a later round.
        is_fit = bool(orders) and orders[0].task == "fit"
        quorum = self.job.recipe.engine.quorum(len(orders)) if is_fit else 0
        yield from self._exchange(asked, quorum)

    def _exchange(self, asked: Sequence[_Asked], quorum: int) -> Iterator[Any]:
        """Send, poll and yield decoded answers or ``Missing`` in order, until all are final."""
        begin = time.monotonic()
        end = begin + self.job.recipe.engine.deadline
        looked = -_LOOK_AROUND
        waiting, answered = list(asked), 0
        while waiting:
            if time.monotonic() - looked >= _LOOK_AROUND:
                self.roster.refresh()
                looked = time.monotonic()
            open_items = [item for item in waiting if item.answer is None]
            for item in open_items:  # all are sent before the first answer is awaited
                self._send(item, end - time.monotonic())
            for item in open_items:
                item.answer = self._pull(item)
                answered += not isinstance(item.answer, Missing | None)
            _give_up(waiting, answered >= quorum, time.monotonic() > end)
            while waiting and waiting[0].answer is not None:
                item = waiting.pop(0)
                answer, item.answer = item.answer, None  # a reply is large: kept by nobody here
                yield answer
            if waiting:
                # Every look costs the SuperLink a request per site: the longer it takes, the fewer.
                time.sleep(min(_LONGEST, max(self.poll, _SHARE * (time.monotonic() - begin))))

    def _send(self, item: _Asked, left: float) -> None:
        """Send an order that is not on its way to a site that can be asked."""
        place = self.roster.node_of(item.site)
        if place is None or left <= 0:
            item.reason = item.reason or self.roster.why(item.site)
            return
        node, start = place
        if item.messages and item.start == start:
            return
        kind = TYPES.get(item.kind, f"query.{item.kind}")
        identifier = self.roster.mail.send(item.content, node, kind, left)
        if identifier is None:
            item.reason = "the order could not be sent"
            return
        item.messages.append(identifier)
        item.start, item.sent = start, time.monotonic()
        item.reason = "it did not answer before the deadline"
        self._count("sent", item.site, records.size_of(item.content))

    def _pull(self, item: _Asked) -> Any:
        """Return the decoded answer, a ``Missing``, or ``None`` if there is none yet."""
        for identifier in list(item.messages):
            try:
                reply = self.roster.mail.fetch(identifier)
                if reply is None:
                    continue
                if not reply.has_error():
                    return self._read(item, reply.content)
            except WireError as error:
                return Missing(item.site, str(error), isinstance(error, DivergedError))
            item.reason = reason_of(reply.error)
            if reply.error.code not in LOST:
                return Missing(item.site, item.reason)
            item.messages.remove(identifier)  # it is asked again when it is back
        return None

    def _read(self, item: _Asked, content: RecordDict) -> Any:
        self._count("received", item.site, records.size_of(content))
        if item.kind == "fit" and item.sent is not None:
            waits = self._facts.setdefault("answer_seconds", {})
            waits[item.site] = round(time.monotonic() - item.sent, 2)
        return self._decode(item, content)

    def _decode(self, item: _Asked, content: RecordDict) -> Any:
        header, body = records.read_header(content)
        if header.protocol != PROTOCOL:
            raise WireError(
                f"it answered with protocol {header.protocol}, expected {PROTOCOL}; install the "
                f"same version of feda3i on both sides"
            )
        if header.kind == "refusal":
            kind = DivergedError if body.get("diverged") is True else WireError
            raise kind(printable(body.get("reason", "it refused")))
        expected = (item.kind, self.run, item.site, self._digest)
        found = (header.kind, header.run, header.site, header.layout)
        if found != expected:
            raise WireError(f"expected an answer to {expected}, found one to {found}")
        if item.kind == "score":
            records.read_params(content, self.layout, ())
            return _rows(body, item.site, self.job.format.classes)
        reply = records.read_reply(content, header, body, self.layout)
        check_reply(reply, self.job.method.wire, self.layout, self.job.format.classes)
        return reply

    # -- scores -----------------------------------------------------------------------------------

    def score(self, params: Params, split: str, distances: bool) -> list[Row]:
        """Score the server's test cases case by case, or ask sites for the means over theirs."""
        if split == "test" and self.test is not None:
            if self._predictor is None:
                self._predictor = self.job.predictor()
            every = range(len(self.test))
            return join_slices(score_cases(self._predictor, params, self.test, every, distances))
        record = records.pack_params(params)
        asked = []
        for site in self.roster.cases():
            header = Header("score", self.run, site=site, layout=self._digest)
            body = {"split": split, "distances": distances}
            asked.append(_Asked(site, records.write(header, body, {"": record}), "score"))
        rows: list[Row] = []
        for answer in self._exchange(asked, 0):
            if isinstance(answer, Missing):
                self._facts.setdefault("unscored", {})[answer.site] = answer.reason
            else:
                rows += answer
        return rows

    def _count(self, direction: str, site: str, size: int) -> None:
        totals = self._facts.setdefault(f"bytes_{direction}", {})
        totals[site] = totals.get(site, 0) + size


def _give_up(waiting: Sequence[_Asked], has_quorum: bool, is_late: bool) -> None:
    """Stop waiting: at the deadline, or for lost sites when enough others have answered."""
    open_items = [item for item in waiting if item.answer is None]
    if is_late or (has_quorum and not any(item.messages for item in open_items)):
        for item in open_items:
            item.answer = Missing(item.site, item.reason)


def _rows(body: dict[str, Any], site: str, classes: int) -> list[Row]:
    """Return a site's means, one row per class; anything else is refused."""
    rows = body.get("rows")
    if set(body) != {"rows"} or not isinstance(rows, list) or len(rows) > classes:
        raise WireError(f"expected at most {classes} rows of scores")
    for row in rows:
        if not isinstance(row, dict):
            raise WireError("expected rows of scores by name")
        check_whole("the class of a score", row.get("class"), 1, classes)
        check_whole("the cases of a score", row.get("cases"), 1, MAX_CASES)
        for name in set(row) - {"class", "cases"}:
            if name not in (*SCORES, "covered"):
                raise WireError(f"expected the scores {', '.join(SCORES)}, found {shown(name)}")
            is_undefined = isinstance(row[name], float) and not math.isfinite(row[name])
            if not is_undefined:  # a distance to nothing
                check_range(f"the score {name}", row[name], 0, MAX_NUMBER)
    return [{"case": site, **row} for row in rows]
