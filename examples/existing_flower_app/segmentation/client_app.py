"""The client: an ordinary train function, and the four lines that answer FedA3I's survey."""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from feda3i.flower.strategy import early_arrays, survey_record
from feda3i.quality import survey_site
from segmentation.task import Net, load_cases, predictions, train

app = ClientApp()


@app.train()
def fit(message: Message, context: Context) -> Message:
    """Train the received model on this client's cases."""
    images, masks = load_cases(int(context.node_config["partition-id"]))
    model = Net()
    content = RecordDict()

    # New: if asked, survey this client's masks with the early model, before training.
    early = early_arrays(message)
    if early is not None:
        model.load_state_dict(early.to_torch_state_dict())
        content["survey"] = survey_record(survey_site(predictions(model, images, masks)))

    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loss = train(model, images, masks)
    content["arrays"] = ArrayRecord(model.state_dict())
    content["metrics"] = MetricRecord({"loss": loss, "num-examples": len(images)})
    return Message(content, reply_to=message)
