"""The round loop's orders over Flower's grid, with its own polling, deadlines and a quorum.

Every order is one message, and replies are handed on in the order of the orders. A site that is
away or was restarted is asked (again) while there is time: to repeat an order does no harm, because
site memory is kept per round at the site.
"""

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from flwr.app import RecordDict
from pydantic import AfterValidator, Field

from feda3i.core.cases import Cases
from feda3i.core.messages import Missing, Order, Params, Reply
from feda3i.core.predictor import Predictor
from feda3i.core.wire import MAX_CASES, MAX_NUMBER, check_reply
from feda3i.engine.job import Job
from feda3i.engine.scoring import Row, join_slices, score_cases
from feda3i.errors import DivergedError, WireError
from feda3i.files import write_file
from feda3i.flower import records
from feda3i.flower.records import Header
from feda3i.flower.roster import LostError, Roster

SITES = Path("state") / "sites.json"
"""Where a run folder remembers who took part, and with how many cases."""
_LOOK_AROUND = 1.0  # seconds between two looks at who is connected
_SHARE, _LONGEST = 0.02, 2.0
"""Seconds between two looks for answers: this share of the time waited so far, and the most."""


@dataclass
class _Asked:
    """A question to a site: not sent, on its way, or with an answer (``Missing`` is one)."""

    site: str
    content: RecordDict
    kind: str
    message: str = ""  # on its way to the site's node, which was started at ``start``
    start: str = ""
    sent: float = 0.0
    answer: Any = None
    reason: str = ""  # why there is no answer yet


class FlowerTransport:
    """Ask sites through Flower's grid.

    ``run`` is the run's identifier, the same after a resume. ``test`` are the server's own test
    cases; without them, sites score on theirs. ``poll`` is the pause in seconds between two polls
    at the beginning of a round.
    """

    is_remote = True

    def __init__(
        self, roster: Roster, job: Job, run: str, folder: Path, test: Cases | None, poll: float
    ) -> None:
        self.roster, self.job, self.run, self.test, self.poll = roster, job, run, test, poll
        self._file, self._digest = folder / SITES, job.layout.digest()
        self._facts: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self._predictor: Predictor | None = None

    def sites(self) -> dict[str, int]:
        """Return every site that was ever there; newcomers are found here."""
        self.roster.refresh()
        cases = dict(sorted(self.roster.bound.items()))
        write_file(self._file, json.dumps(cases).encode())
        return cases

    def facts(self) -> dict[str, Any]:
        """Return what happened on the network since the last call, for the event log."""
        facts = {
            **self._facts,
            "absent": self.roster.absent(),
            "refused": self.roster.refused(),
            "versions": self.roster.versions(),
            "refusals": self.roster.refusals,
        }
        self._facts.clear()
        self.roster.refusals = []
        return {name: value for name, value in facts.items() if value}

    def call(self, orders: Sequence[Order]) -> Iterator[Reply | Missing]:
        """Yield one answer per order, in the order of the orders."""
        # One record for all sites: it is packed and hashed once, and uploaded once.
        packed = {id(order.params): order.params for order in orders}
        shared = {key: records.pack_params(params) for key, params in packed.items()}
        asked = []
        for order in orders:
            content = records.write_order(order, self.run, self._digest, shared[id(order.params)])
            asked.append(_Asked(order.site, content, order.task))
        # Nobody waits for the quorum of a survey: who is away is asked in a later round.
        is_fit = bool(orders) and orders[0].task == "fit"
        yield from self._exchange(asked, self.job.recipe.engine.quorum(len(orders)) * is_fit)

    def score(self, params: Params, split: str, distances: bool) -> list[Row]:
        """Score the server's test cases case by case, or ask sites for the means over theirs."""
        if split == "test" and self.test is not None:
            self._predictor = self._predictor or self.job.predictor()
            asked = self.test, range(len(self.test)), distances
            return join_slices(score_cases(self._predictor, params, *asked))
        record, body = {"": records.pack_params(params)}, {"split": split, "distances": distances}
        header = Header("score", self.run, layout=self._digest)
        questions = [
            _Asked(site, records.write(replace(header, site=site), body, record), "score")
            for site in sorted(self.roster.bound)
        ]
        rows: list[Row] = []
        for answer in self._exchange(questions, 0):
            if isinstance(answer, Missing):
                self._facts["unscored"][answer.site] = answer.reason
            else:
                rows += answer
        return rows

    def _exchange(self, asked: Sequence[_Asked], quorum: int) -> Iterator[Any]:
        """Send, poll and yield decoded answers or ``Missing`` in order, until all are final."""
        begin, looked = time.monotonic(), -math.inf
        end = begin + self.job.recipe.engine.deadline
        waiting, answered = list(asked), 0
        while waiting:
            if time.monotonic() - looked >= _LOOK_AROUND:
                self.roster.refresh()
                looked = time.monotonic()
            silent = [item for item in waiting if item.answer is None]
            for item in silent:  # all are sent before the first answer is awaited
                self._send(item, end - time.monotonic())
            for item in silent:
                item.answer = self._pull(item)
                answered += not isinstance(item.answer, Missing | None)
            silent = [item for item in silent if item.answer is None]
            # At the deadline, or for lost sites when enough others have answered.
            is_enough = answered >= quorum and not any(item.message for item in silent)
            if is_enough or time.monotonic() > end:
                for item in silent:
                    item.answer = Missing(item.site, item.reason)
            while waiting and waiting[0].answer is not None:
                item = waiting.pop(0)
                answer, item.answer = item.answer, None  # a reply is large: kept by nobody here
                yield answer
            if waiting:
                # Every look costs the SuperLink a request per site: the longer it takes, the fewer.
                time.sleep(min(_LONGEST, max(self.poll, _SHARE * (time.monotonic() - begin))))

    def _send(self, item: _Asked, left: float) -> None:
        place = self.roster.node_of(item.site)
        if place is None or left <= 0:
            why = self.roster.refused().get(item.site, "it was not connected")
            item.reason = item.reason or why
            return
        node, start = place
        if not item.message or item.start != start:
            item.message, item.start = self.roster.send(item.content, node, left), start
            item.sent = time.monotonic()
            late = "it did not answer before the deadline"
            item.reason = late if item.message else "the order could not be sent"

    def _pull(self, item: _Asked) -> Any:
        """Return the decoded answer, a ``Missing``, or ``None`` if there is none yet."""
        if not item.message:
            return None
        try:
            if (content := self.roster.fetch(item.message)) is None:
                return None
            if item.kind == "fit":
                seconds = round(time.monotonic() - item.sent, 2)
                self._facts["answer_seconds"][item.site] = seconds
            return self._decode(item, content)
        except LostError as error:
            item.message, item.reason = "", str(error)  # it is asked again when it is back
            return None
        except WireError as error:
            return Missing(item.site, str(error), isinstance(error, DivergedError))

    def _decode(self, item: _Asked, content: RecordDict) -> Any:
        header, body = records.read_answer(content)
        expected = (item.kind, self.run, item.site, self._digest)
        found = (header.kind, header.run, header.site, header.layout)
        if found != expected:
            raise WireError(f"expected an answer to {expected}, found one to {found}")
        layout, classes = self.job.layout, self.job.format.classes
        if item.kind == "score":
            records.read_params(content, layout, ())
            return rows_of(body, item.site, classes)
        reply = records.read_reply(content, header, body, layout)
        # The loop looks, too; but here a forged answer is none yet for the quorum.
        check_reply(reply, self.job.method.wire, layout, classes)
        return reply


def _in_range(score: float) -> float:
    if 0 <= score <= MAX_NUMBER or not math.isfinite(score):  # a distance to nothing is NaN
        return score
    raise ValueError(f"expected a number from 0 to {MAX_NUMBER:g}")


_Score = Annotated[float, AfterValidator(_in_range)] | None


class _Means(records.Strict):
    """The mean scores of one class at a site."""

    case: Any  # the site's name; the server knows it
    number: Annotated[int, Field(alias="class", ge=1)]
    cases: Annotated[int, Field(ge=1, le=MAX_CASES)]
    dice: _Score = None
    dice_both_empty_one: _Score = None
    iou: _Score = None
    hd95: _Score = None
    assd: _Score = None
    covered: _Score = None


class _Scores(records.Strict):
    rows: list[_Means]


def rows_of(body: Mapping[str, Any], site: str, classes: int) -> list[Row]:
    """Return a site's means, one row per class; anything else is refused."""
    found = records.checked(_Scores, body, "its scores")
    if len(found.rows) > classes or any(row.number > classes for row in found.rows):
        raise WireError(f"its scores: expected one row for each of {classes} classes")
    return [{**row, "case": site} for row in body["rows"]]
