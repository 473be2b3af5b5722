"""The network engine: the same round loop and the same stations, with Flower between them.

Only this package imports ``flwr`` (extra ``feda3i[flower]``); everything else works without it.
Flower's words (client, node, message) stay in here. For apps that exist, ``FedA3I`` and ``Redraw``
are strategies.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feda3i.flower.redraw import Redraw, redraw_masks
    from feda3i.flower.strategy import FedA3I, early_arrays, survey_record

__all__ = ["FedA3I", "Redraw", "early_arrays", "redraw_masks", "survey_record"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from feda3i.flower import redraw, strategy  # import flwr, which not every module here needs

    return getattr(redraw if name in ("Redraw", "redraw_masks") else strategy, name)
