"""Options that make runs short, and methods show all of their phases within a few rounds."""

SHORT: dict[str, dict[str, object]] = {
    "adele": {"points": 2, "r": 0.01, "trim": False, "tau": 0.5},
    "elr": {"beta": 0.7},
    "feda3i": {"t1": 1},
    "fedcorr": {"t1": 1, "t2": 1},
    "feddm": {"probes": 4, "stop": 2},
    "fednoro": {"s1": 1, "end": 3},
    "rmd": {"t1": 2, "warp_from": 1, "weight": 0.5},
}

# A run of seconds on the command line.
TINY = (
    "rounds=2",
    "data=synthetic-skin",
    "data.sites=2",
    "data.cases=2",
    "data.test=2",
    "data.size=32",
    "model.width=4",
    "train.epochs=1",
    "engine.workers=1",
)
