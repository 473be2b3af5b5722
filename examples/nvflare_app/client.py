"""A client of NVFlare's API with the four lines that answer FedA3I's survey."""

import argparse
import json

import nvflare.client as flare
import torch
from nvflare.apis.fl_constant import FLMetaKey
from segmentation.task import Net, load_cases, train

import feda3i


def main() -> None:
    """Train on this site's cases, round by round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--t1", type=int, default=2, help="rounds of FedAvg before the survey")
    t1 = parser.parse_args().t1
    flare.init()
    images, masks = load_cases(int(flare.get_site_name().rpartition("-")[2]) - 1)
    model, is_asked = Net(), True
    while flare.is_running():
        received = flare.receive()
        model.load_state_dict({name: torch.as_tensor(v) for name, v in received.params.items()})
        # New: once the model is warm, survey this site's masks and send a few numbers along.
        meta = {FLMetaKey.NUM_STEPS_CURRENT_ROUND: len(images)}
        if is_asked and received.current_round >= t1:
            found, is_asked = feda3i.survey(model, [(images, masks)]), False
            meta["feda3i-survey"] = json.dumps(found.to_dict())

        train(model, images, masks)
        flare.send(flare.FLModel(params=model.state_dict(), meta=meta))


if __name__ == "__main__":
    main()
