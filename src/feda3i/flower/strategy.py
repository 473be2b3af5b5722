"""The FedA3I weighting as an ordinary Flower strategy, for apps that already exist.

Take ``FedA3I`` instead of ``FedAvg`` at the server. At the clients, add four lines to the train
function: if ``early_arrays(message)`` returns parameters, load them, pass the logits and masks of
all cases to ``feda3i.quality.survey_site``, and add ``survey_record`` of the result to the reply::

    early = early_arrays(message)
    if early is not None:
        model.load_state_dict(early.to_torch_state_dict())
        found = survey_site(predictions(model, cases))
        content["survey"] = survey_record(found)

No further message is sent: the survey rides on the training of the first round after the warm-up,
or in which a client comes. Messages keep one record of arrays and one of settings, as Flower's mods
and differential-privacy wrappers expect.
"""

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray
from safetensors.numpy import load, save

from feda3i.core.messages import Floats, cap_shares
from feda3i.core.wire import MAX_CASES
from feda3i.errors import RecipeError, WireError, printable, shown
from feda3i.flower.redraw import add_settings
from feda3i.quality import Rating, SiteSurvey, mix_by_stage, rate_sites
from feda3i.quality.weights import Mass

EARLY, SURVEY = "feda3i-early", "survey"
_T = TypeVar("_T")
log = logging.getLogger("feda3i.strategy")
MAX_TEXT = 64 * 1024


def early_arrays(message: Message) -> ArrayRecord | None:
    """Return the parameters to survey with, or ``None`` if this message asks for no survey."""
    for record in message.content.config_records.values():
        if isinstance(data := record.get(EARLY), bytes):
            if not data:  # those that came with the message
                return next(iter(message.content.array_records.values()))
            return ArrayRecord({name: Array(value) for name, value in load(data).items()})
    return None


def survey_record(survey: SiteSurvey) -> ConfigRecord:
    """Return a site's survey as the record ``"survey"`` of a reply: a few numbers per class."""
    return ConfigRecord({SURVEY: json.dumps(survey.to_dict())})


@dataclass(frozen=True)
class _Answer:
    content: RecordDict
    arrays: dict[str, NDArray[Any]]
    cases: float
    survey: SiteSurvey | None


class FedA3I(FedAvg):
    """FedAvg in the warm-up; then quality decides near the output, quantity near the input.

    It composes: ``class Mine(FedAdam, FedA3I)`` takes a step of Adam towards its average. Settings
    may be attributes of such a class, since other strategies do not pass them on.

    Parameters
    ----------
    t1
        Rounds of FedAvg before the survey (10).
    max_share
        The most that quality lets one node weigh at a stage (0.4), as ``engine.max_share`` does
        for all methods; a node with a larger share of all cases keeps that share. 1: no cap.
    stages
        Groups of parameters from input to output: the beginnings of their names. By default the
        part of a name before the first dot.
    r, seed
        The mass of the larger group, and the seed of the mixture that groups the sites.
    options
        Those of Flower's ``FedAvg``.
    """

    t1: int = 10
    max_share: float = 0.4
    stages: Sequence[str] | None = None
    r: Mass = 0.5
    seed: int = 0

    def __init__(self, t1: int | None = None, **options: Any) -> None:
        if t1 is not None:
            self.t1 = t1
        for name in {"max_share", "stages", "r", "seed"} & set(options):
            setattr(self, name, options.pop(name))
        if self.t1 < 1:
            raise RecipeError(f"t1: expected at least one round of warm-up, found {self.t1}")
        if not 0 < self.max_share <= 1:
            raise RecipeError(f"max_share: expected above 0 to 1, found {self.max_share}")
        super().__init__(**options)
        self.rounds = 0
        """Rounds that were averaged, also before a resume."""
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
        if self.rounds < self.t1:
            return messages
        self.early = self.early or arrays.copy()
        kept, now = ({name: a.data for name, a in of.items()} for of in (self.early, arrays))
        early = {name: a.numpy() for name, a in self.early.items()}
        asked = b"" if kept == now else save(early)
        for message in messages:
            if str(message.metadata.dst_node_id) not in self.surveys:
                add_settings(message, self.configrecord_key, EARLY, asked)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Rate the nodes that answered a survey, then average stage by stage.

        A reply that cannot be read costs its node this round and nobody else.
        """
        read = {}
        for reply in sorted(replies, key=lambda reply: reply.metadata.src_node_id):
            node = str(reply.metadata.src_node_id)
            try:
                read[node] = self._read(reply)
            except WireError as error:
                log.warning("round %d, node %s is left out: %s", server_round, node, error)
        answers = _alike(read, _layout_of)
        if not answers:
            return None, None
        surveys = {node: answer.survey for node, answer in answers.items() if answer.survey}
        found = _alike({**self.surveys, **surveys}, lambda survey: len(survey.cases))
        if set(found) - set(self.surveys):
            self.surveys = found
            self._rate()
        names = list(next(iter(answers.values())).arrays)
        numbers = stage_numbers(names, self.stages)
        cases = np.array([answer.cases for answer in answers.values()])
        weights = self._weigh(list(answers), cases, 1 + max(numbers))
        self.weights = dict(zip(answers, weights.tolist(), strict=True))
        self.rounds += 1
        merged = ArrayRecord()
        for name, number in zip(names, numbers, strict=True):
            arrays = [answer.arrays[name] for answer in answers.values()]
            merged[name] = Array(_merge(arrays, weights[:, number]))
        for answer in answers.values():
            answer.content.pop(SURVEY, None)
        contents = [answer.content for answer in answers.values()]
        return merged, self.train_metrics_aggr_fn(contents, self.weighted_by_key)

    def state(self) -> RecordDict:
        """Return what the strategy knows, to be kept with the model of a round."""
        surveys = {node: survey.to_dict() for node, survey in self.surveys.items()}
        known = {"rounds": self.rounds, "surveys": surveys}
        records: dict[str, Any] = {"feda3i": ConfigRecord({"state": json.dumps(known)})}
        return RecordDict(records | ({} if self.early is None else {EARLY: self.early}))

    def restore(self, state: RecordDict) -> None:
        """Go on from what ``state`` returned; Flower counts rounds from 1 again, this does not."""
        known = json.loads(str(state.config_records["feda3i"]["state"]))
        self.rounds = int(known["rounds"])
        self.early = state.array_records.get(EARLY)
        self.surveys = {n: SiteSurvey.from_dict(found) for n, found in known["surveys"].items()}
        if self.surveys:
            self._rate()

    def _rate(self) -> None:
        self.rating = rate_sites(dict(sorted(self.surveys.items())), r=self.r, seed=self.seed)

    def _read(self, reply: Message) -> _Answer:
        if reply.has_error():
            raise WireError(printable(str(reply.error.reason), 300))
        content = reply.content
        if len(content.array_records) != 1 or len(content.metric_records) != 1:
            raise WireError("expected one record of arrays and one of metrics")
        [record], [metrics] = content.array_records.values(), content.metric_records.values()
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
        quality = cap_shares(quality, max(self.max_share, float(quantity.max())))
        return mix_by_stage(quantity, quality, stages)


def stage_numbers(names: Sequence[str], stages: Sequence[str] | None = None) -> list[int]:
    """Return the stage of every parameter.

    >>> stage_numbers(["inc.weight", "inc.bias", "outc.weight"])
    [0, 0, 1]
    >>> stage_numbers(["net.a.w", "net.b.w"], ["net.a", "net.b"])
    [0, 1]
    """
    heads = list(dict.fromkeys(name.split(".")[0] for name in names)) if stages is None else stages
    numbers = []
    for name in names:
        fitting = (j for j, head in enumerate(heads) if f"{name}.".startswith(f"{head}."))
        if (number := next(fitting, None)) is None:
            raise RecipeError(f"stages: '{name}' begins with none of {', '.join(heads)}")
        numbers.append(number)
    return numbers


def _alike(found: dict[str, _T], kind_of: Callable[[_T], Any]) -> dict[str, _T]:
    """Return those of the kind that most have; the others are named in the log."""
    kinds = {node: kind_of(one) for node, one in found.items()}
    most = Counter(kinds.values()).most_common(1)
    if odd := [node for node, kind in kinds.items() if kind != most[0][0]]:
        log.warning("left out, because they differ from most: %s", ", ".join(odd))
    return {node: one for node, one in found.items() if node not in odd}


def _layout_of(answer: _Answer) -> Any:
    return tuple((name, str(array.dtype), array.shape) for name, array in answer.arrays.items())


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
        survey = SiteSurvey.from_dict(json.loads(text))
        if survey.q.shape != (len(survey.cases), 2):
            raise ValueError
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, AttributeError):
        raise WireError("a survey that cannot be read") from None
    return survey
