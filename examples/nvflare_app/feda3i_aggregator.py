"""FedA3I's weights as an aggregator for NVFlare's FedAvg recipe: ``FedAvgRecipe(aggregator=...)``.

Clients train as before. In the round after the warm-up each one also surveys its own masks with the
model that it received and sends the few numbers along; ``client.py`` shows the lines. From then on
better annotators weigh more, most in the last stages of the network.
"""

from __future__ import annotations

import json

import numpy as np
import torch
from nvflare.apis.fl_constant import FLMetaKey
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator

import feda3i
from feda3i.quality import SiteSurvey

SURVEY = "feda3i-survey"


class FedA3IAggregator(ModelAggregator):
    """Average as FedAvg until sites answered the survey, then stage by stage.

    Parameters
    ----------
    stages
        The parts of the network from input to output, by the beginnings of their parameters' names.
    max_share
        The most that one site may weigh at a stage, unless it has a larger share of all cases.
    """

    def __init__(self, stages: list[str], max_share: float = 0.4) -> None:
        super().__init__()
        self.stages, self.max_share = stages, max_share
        self.surveys: dict[str, SiteSurvey] = {}
        self.models: dict[str, FLModel] = {}

    def accept_model(self, model: FLModel) -> None:
        """Keep a site's model of this round, and its survey if it sends one."""
        if not model.params or model.params_type == ParamsType.DIFF:
            self.warning("FedA3I needs whole models: TransferType.FULL; this one is left out")
            return
        site = str(model.meta.get("client_name", len(self.models)))
        if SURVEY in model.meta:
            self.surveys.setdefault(site, SiteSurvey.from_dict(json.loads(model.meta[SURVEY])))
        self.models[site] = model

    def aggregate_model(self) -> FLModel:
        """Return the weighted average of the round's models."""
        if not self.models:
            raise RuntimeError("FedA3I: no client sent a whole model in this round")
        cases = {
            site: int(model.meta.get(FLMetaKey.NUM_STEPS_CURRENT_ROUND, 1))
            for site, model in sorted(self.models.items())
        }
        quantity = np.array(list(cases.values())) / sum(cases.values())
        weights = np.repeat(quantity[:, None], len(self.stages), axis=1)
        if set(self.surveys) & set(cases):
            weights = feda3i.weights_of(
                self.surveys, cases, len(self.stages), max_share=self.max_share
            )
        for site, row in zip(cases, weights.round(3).tolist(), strict=True):
            self.info(f"{site} weighs {row}")
        merged = {}
        for stage, column in zip(self.stages, weights.T, strict=True):
            merged.update(feda3i.average([self._part(site, stage) for site in cases], column))
        return FLModel(params={name: tensor.numpy() for name, tensor in merged.items()})

    def _part(self, site: str, stage: str) -> dict[str, torch.Tensor]:
        params = self.models[site].params.items()
        return {
            name: torch.from_numpy(np.array(array))
            for name, array in params
            if f"{name}.".startswith(f"{stage}.")
        }

    def reset_stats(self) -> None:
        """Forget the models of the last round; surveys stay."""
        self.models = {}
