"""Which device each worker process trains on: a pure plan, made before any of them starts."""

from __future__ import annotations


def plan_devices(wanted: str, workers: int, gpus: int) -> list[str]:
    """Return the device of each worker; workers are spread over the GPUs in turn.

    Parameters
    ----------
    wanted
        ``engine.device``: ``auto``, ``cpu``, ``cuda`` (all GPUs) or one, e.g. ``cuda:1``.
    workers, gpus
        How many processes there are, and how many GPUs the machine has.

    >>> plan_devices("auto", 3, 2)
    ['cuda:0', 'cuda:1', 'cuda:0']
    >>> plan_devices("cuda:1", 2, 2), plan_devices("auto", 2, 0)
    (['cuda:1', 'cuda:1'], ['cpu', 'cpu'])
    """
    if wanted == "cpu" or gpus == 0:
        return ["cpu"] * workers
    if wanted not in ("auto", "cuda"):
        return [wanted] * workers
    return [f"cuda:{worker % gpus}" for worker in range(workers)]


def usual_workers(wanted: str, cores: int, gpus: int) -> int:
    """Return how many workers ``engine.workers=auto`` means: one per GPU in use, or per core.

    >>> usual_workers("auto", 8, 2), usual_workers("cuda:0", 8, 2), usual_workers("cpu", 8, 2)
    (2, 1, 8)
    """
    if wanted == "cpu" or gpus == 0:
        return cores
    return gpus if wanted in ("auto", "cuda") else 1
