"""Options that make each method show all of its phases within the few rounds of a test."""

SHORT: dict[str, dict[str, object]] = {
    "adele": {"points": 2, "r": 0.01, "trim": False, "tau": 0.5},
    "elr": {"beta": 0.7},
    "feda3i": {"t1": 1},
    "fedcorr": {"t1": 1, "t2": 1},
    "feddm": {"probes": 4, "stop": 2},
    "fednoro": {"s1": 1, "end": 3},
    "rmd": {"t1": 2, "warp_from": 1, "weight": 0.5},
}
