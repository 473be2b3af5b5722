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
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from feda3i.core.messages import Floats
from feda3i.errors import RecipeError, WireError
from feda3i.quality import Rating, SiteSurvey, mix_by_stage, rate_sites
from feda3i.quality.grouping import Rule
from feda3i.quality.weights import Mass

EARLY, SURVEY = "early", "survey"
MAX_TEXT = 64 * 1024
Stages = Sequence[str] | Callable[[Sequence[str]], Sequence[int]] | None


def early_arrays(message: Message) -> ArrayRecord | None:
    """Return the parameters to survey with, or ``None`` if this message asks for no survey."""
    record = dict(message.content.items()).get(EARLY)
    return record if isinstance(record, ArrayRecord) else None


def survey_record(survey: SiteSurvey) -> ConfigRecord:
    """Return a site's survey as the record ``"survey"`` of a reply: two averages per class."""
    return ConfigRecord({SURVEY: json.dumps(survey.to_dict())})


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
        """Rate the nodes that answered a survey, then average stage by stage."""
        valid, _ = self._check_and_log_replies(replies, is_train=True)
        if not valid:
            return None, None
        valid = sorted(valid, key=lambda reply: reply.metadata.src_node_id)
        nodes = [str(reply.metadata.src_node_id) for reply in valid]
        contents = [reply.content for reply in valid]
        cases = np.array([self._cases(content) for content in contents])
        self._digest(dict(zip(nodes, contents, strict=True)))
        records = [next(iter(content.array_records.values())) for content in contents]
        names = list(records[0])
        numbers = stage_numbers(names, self.stages)
        weights = self._weigh(nodes, cases, 1 + max(numbers))
        self.weights = dict(zip(nodes, weights.tolist(), strict=True))
        merged = {
            name: _merge([record[name].numpy() for record in records], weights[:, number])
            for name, number in zip(names, numbers, strict=True)
        }
        metrics = self.train_metrics_aggr_fn(contents, self.weighted_by_key)
        return ArrayRecord({name: Array(value) for name, value in merged.items()}), metrics

    def _cases(self, content: RecordDict) -> float:
        record = next(iter(content.metric_records.values()))
        return float(record[self.weighted_by_key])  # type: ignore[arg-type]  # checked by Flower

    def _digest(self, contents: dict[str, RecordDict]) -> None:
        """Take in the surveys among the replies; if there are any, rate all nodes again."""
        found = {
            node: _read_survey(content) for node, content in contents.items() if SURVEY in content
        }
        if found:
            self.surveys.update(found)
            self.rating = rate_sites(dict(sorted(self.surveys.items())), **self._rate)

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
