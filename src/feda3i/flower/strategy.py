"""The FedA3I weighting as an ordinary Flower strategy, for apps that already exist.

Take ``FedA3I`` instead of ``FedAvg`` at the server. At the clients, add four lines to the train
function: if ``early_arrays(message)`` returns parameters, load them, pass the logits and masks of
all cases to ``feda3i.quality.survey_site``, and add ``survey_record`` of the result to the reply::

    early = early_arrays(message)
    if early is not None:
        model.load_state_dict(early.to_torch_state_dict())
        content["survey"] = survey_record(survey_site(predictions(model, cases)))

No further message is sent: the survey rides on the training of the first round after the warm-up,
or of the round in which a client comes for the first time.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from feda3i.core.messages import Floats
from feda3i.core.wire import MAX_CASES
from feda3i.errors import RecipeError, WireError, printable, shown
from feda3i.quality import Rating, SiteSurvey, mix_by_stage, rate_sites
from feda3i.quality.grouping import Rule
from feda3i.quality.weights import Mass

EARLY, SURVEY = "early", "survey"
log = logging.getLogger("feda3i.strategy")
MAX_TEXT = 64 * 1024
Stages = Sequence[str] | Callable[[Sequence[str]], Sequence[int]] | None


def early_arrays(message: Message) -> ArrayRecord | None:
    """Return the parameters to survey with, or ``None`` if this message asks for no survey."""
    record = dict(message.content.items()).get(EARLY)
    return record if isinstance(record, ArrayRecord) else None


def survey_record(survey: SiteSurvey) -> ConfigRecord:
    """Return a site's survey as the record ``"survey"`` of a reply: two averages per class."""
    return ConfigRecord({SURVEY: json.dumps(survey.to_dict())})


@dataclass(frozen=True)
class _Answer:
    """What a node sent back."""

    content: RecordDict
    arrays: dict[str, NDArray[Any]]
    cases: float
    survey: SiteSurvey | None


class FedA3I(FedAvg):
    """FedAvg in the warm-up; then quality decides near the output, quantity near the input.

    Parameters
    ----------
    t1
        Rounds of FedAvg before the survey.
    stages
        Groups of parameters from input to output: beginnings of their names, or a function from
        all names to a number 0, 1, ... each. By default the part of a name before the first dot.
    rule, r, seed
        How sites are grouped, the mass of the larger group, and the seed of the mixture.
    power, scale, bias
        Of the ramp from quantity to quality (Eq. 7).
    options
        Those of Flower's ``FedAvg``.
    """

    def __init__(
        self,
        t1: int = 10,
        *,
        stages: Stages = None,
        rule: Rule = "mixture",
        r: Mass = 0.5,
        seed: int = 0,
        power: float = 1.0,
        scale: float = 1.0,
        bias: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if t1 < 1:
            raise RecipeError(f"t1: expected at least one round of warm-up, found {t1}")
        self.t1, self.stages = t1, stages
        self._rate: dict[str, Any] = {"rule": rule, "r": r, "seed": seed}
        self._ramp = {"power": power, "scale": scale, "bias": bias}
        self.early: ArrayRecord | None = None
        self.surveys: dict[str, SiteSurvey] = {}
        self.rating: Rating | None = None
        self.weights: dict[str, list[float]] = {}
        """Weight of each node (by number) at each stage in the last round."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask all nodes to train, and those who are not rated yet for a survey as well."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        if server_round <= self.t1:
            return messages
        self.early = self.early or arrays.copy()
        for message in messages:
            if str(message.metadata.dst_node_id) not in self.surveys:
                # A record of its own: Flower gives all nodes the same one.
                message.content = RecordDict({**message.content, EARLY: self.early})
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Rate the nodes that answered a survey, then average stage by stage.

        A reply that cannot be read costs its node this round and nobody else.
        """
        answers = {}
        for reply in sorted(replies, key=lambda reply: reply.metadata.src_node_id):
            node = str(reply.metadata.src_node_id)
            try:
                answers[node] = self._read(reply)
            except WireError as error:
                log.warning("round %d, node %s is left out: %s", server_round, node, error)
        answers = _same_layout(answers)
        if not answers:
            return None, None
        found = {node: answer.survey for node, answer in answers.items() if answer.survey}
        if found:
            self.surveys.update(found)
            self.rating = rate_sites(dict(sorted(self.surveys.items())), **self._rate)
        names = list(next(iter(answers.values())).arrays)
        numbers = stage_numbers(names, self.stages)
        cases = np.array([answer.cases for answer in answers.values()])
        weights = self._weigh(list(answers), cases, 1 + max(numbers))
        self.weights = dict(zip(answers, weights.tolist(), strict=True))
        merged = {
            name: _merge([answer.arrays[name] for answer in answers.values()], weights[:, number])
            for name, number in zip(names, numbers, strict=True)
        }
        contents = [answer.content for answer in answers.values()]
        metrics = self.train_metrics_aggr_fn(contents, self.weighted_by_key)
        return ArrayRecord({name: Array(value) for name, value in merged.items()}), metrics

    def _read(self, reply: Message) -> _Answer:
        if reply.has_error():
            raise WireError(printable(str(reply.error.reason), 300))
        content = reply.content
        if len(content.array_records) != 1 or len(content.metric_records) != 1:
            raise WireError("expected one record of arrays and one of metrics")
        record = next(iter(content.array_records.values()))
        metrics = next(iter(content.metric_records.values()))
        cases = metrics.get(self.weighted_by_key)
        if not isinstance(cases, int | float) or not 0 < cases <= MAX_CASES:
            raise WireError(f"expected the metric '{self.weighted_by_key}' above 0")
        arrays = {name: read_npy(name, array) for name, array in record.items()}
        survey = _read_survey(content) if SURVEY in content else None
        return _Answer(content, arrays, float(cases), survey)

    def _weigh(self, nodes: Sequence[str], cases: Floats, stages: int) -> Floats:
        quantity: Floats = cases / cases.sum()
        if self.rating is None:
            return np.repeat(quantity[:, None], stages, axis=1)
        quality = self.rating.weights(nodes, cases)
        return mix_by_stage(quantity, quality, stages, **self._ramp)


def stage_numbers(names: Sequence[str], stages: Stages = None) -> list[int]:
    """Return the stage of every parameter.

    >>> stage_numbers(["inc.weight", "inc.bias", "outc.weight"])
    [0, 0, 1]
    >>> stage_numbers(["net.a.w", "net.b.w"], ["net.a", "net.b"])
    [0, 1]
    """
    if callable(stages):
        return [int(number) for number in stages(names)]
    if stages is None:
        heads = list(dict.fromkeys(name.split(".")[0] for name in names))
        return [heads.index(name.split(".")[0]) for name in names]
    numbers = []
    for name in names:
        fitting = [j for j, head in enumerate(stages) if f"{name}.".startswith(f"{head}.")]
        if not fitting:
            raise RecipeError(f"stages: '{name}' begins with none of {', '.join(stages)}")
        numbers.append(fitting[0])
    return numbers


def _same_layout(answers: dict[str, _Answer]) -> dict[str, _Answer]:
    """Return the answers whose arrays have the names, types and shapes that most have."""
    kinds: dict[Any, list[str]] = {}
    for node, answer in answers.items():
        kind = tuple((name, str(a.dtype), a.shape) for name, a in answer.arrays.items())
        kinds.setdefault(kind, []).append(node)
    most = max(kinds.values(), key=len, default=[])
    odd = sorted(set(answers) - set(most))
    if odd:
        log.warning("left out, because their arrays differ from most: %s", ", ".join(odd))
    return {node: answers[node] for node in most}


_NPY = re.compile(
    rb"\{'descr': '([<>|][biuf][1248])', 'fortran_order': False, "
    rb"'shape': \(((?:\d{1,10},? ?){0,8})\), \} *\n"
)


def read_npy(name: str, array: Array) -> NDArray[Any]:
    """Return the array in numpy's format, as Flower packs it, whose header numpy would evaluate."""
    data = array.data
    start = 10 + int.from_bytes(data[8:10], "little")
    header = _NPY.fullmatch(data[10:start])
    if data[:8] != b"\x93NUMPY\x01\x00" or header is None:
        raise WireError(f"{shown(name)} is not an array of numbers in numpy's format")
    kind, shape = np.dtype(header[1].decode()), tuple(map(int, re.findall(rb"\d+", header[2])))
    if len(data) - start != kind.itemsize * math.prod(shape):
        raise WireError(f"{shown(name)}: {len(data) - start} bytes do not make shape {shape}")
    values = np.frombuffer(data, kind, offset=start).reshape(shape)
    if not np.isfinite(values).all():
        raise WireError(f"{shown(name)} holds NaN or infinite values")
    return values


def _merge(arrays: Sequence[Any], weights: Floats) -> Any:
    """Return the weighted sum in double precision; integer buffers take the largest value."""
    if not np.issubdtype(arrays[0].dtype, np.floating):
        return np.asarray(np.maximum.reduce(arrays))  # of scalars it is not an array
    total = np.zeros(arrays[0].shape)
    for array, weight in zip(arrays, weights, strict=True):
        total += weight * array.astype(np.float64)
    return np.asarray(total, dtype=arrays[0].dtype)


def _read_survey(content: RecordDict) -> SiteSurvey:
    record = content[SURVEY]
    text = record.get(SURVEY) if isinstance(record, ConfigRecord) else None
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        raise WireError("expected the survey that feda3i.flower.strategy.survey_record makes")
    try:
        return SiteSurvey.from_dict(json.loads(text))
    except (ValueError, KeyError, TypeError):
        raise WireError("a survey that cannot be read") from None
