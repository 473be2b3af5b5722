"""Methods: how sites train and how the server weighs them, one small file each."""

from feda3i.registry import Registry, modules_of

REGISTRY = Registry(
    kind="method",
    builtin={
        **modules_of("feda3i.methods", "METHOD"),
        # FedAvg on another view of the data (feda3i.simulation.views).
        "central": "feda3i.methods.fedavg:METHOD",
        "clean": "feda3i.methods.fedavg:METHOD",
    },
    entry_points="feda3i.methods",
)
