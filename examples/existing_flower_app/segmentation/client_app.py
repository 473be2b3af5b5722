"""The client: an ordinary train function, and the lines that answer FedA3I's survey and Redraw."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from feda3i.flower import early_arrays, redraw_masks, survey_record
from feda3i.quality import survey_site
from segmentation.task import Net, dice, load_cases, partition_of, predictions, train

app = ClientApp()


@app.train()
def fit(message: Message, context: Context) -> Message:
    """Train the received model on this client's cases."""
    images, masks = load_cases(partition_of(context.node_config))
    model = Net()
    content = RecordDict()

    # New for Redraw: tell how far this client draws outside the borders, or move its contours.
    if context.run_config["strategy"] == "redraw":
        moved, told = redraw_masks(message, images[:, 0], masks[:, 0])
        masks = torch.from_numpy(moved).float()[:, None]
        if told is not None:
            content["offsets"] = told

    # New for FedA3I: if asked, survey this client's masks with the early model, before training.
    early = early_arrays(message)
    if early is not None:
        model.load_state_dict(early.to_torch_state_dict())
        found = survey_site(predictions(model, images, masks))
        content["survey"] = survey_record(found)

    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loss = train(model, images, masks)
    content["arrays"] = ArrayRecord(model.state_dict())
    content["metrics"] = MetricRecord({"loss": loss, "num-examples": len(images)})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Score the received model on this client's masks, which are as it draws them."""
    images, masks = load_cases(partition_of(context.node_config))
    model = Net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    metrics = MetricRecord({"dice": dice(model, images, masks), "num-examples": len(images)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
