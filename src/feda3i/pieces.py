"""The pieces of FedA3I for a training loop of your own: PyTorch, MONAI, any federated framework.

Survey your model at each site, turn the surveys into weights, average the sites' state dicts stage
by stage. Nothing here knows recipes, folders or engines.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from feda3i.core.aggregation import check_weights
from feda3i.core.cases import Cases, Federation
from feda3i.core.layout import Stage
from feda3i.core.messages import cap_shares
from feda3i.core.predictor import evaluating
from feda3i.errors import DataError
from feda3i.models.stages import find_stages
from feda3i.quality import SiteSurvey, mix_by_stage, rate_sites, shares, survey_site

State = Mapping[str, Tensor]


def survey(model: nn.Module, batches: Iterable[Any], classes: int = 1) -> SiteSurvey:
    """Return how hard a model finds a site's masks, inside and outside their contours.

    Parameters
    ----------
    model
        Answers images with logits ``(case, class, *space)``: one per foreground class, or one more
        for the background first (softmax). It is asked in eval mode and left as it was.
    batches
        Pairs of images ``(case, channel, *space)`` and masks, as tensors or arrays; a MONAI batch
        ``{"image": ..., "label": ...}`` is such a pair. Masks are ``(case, *space)`` or
        ``(case, 1, *space)`` with value k for class k, or one channel per class, with or without
        the background.
    classes
        Number of foreground classes.

    Examples
    --------
    >>> model = nn.Conv2d(1, 1, 3, padding=1)
    >>> masks = torch.zeros(2, 1, 16, 16)
    >>> masks[:, :, 4:12, 4:12] = 1
    >>> survey(model, [(torch.rand(2, 1, 16, 16), masks)]).cases.tolist()
    [2]
    """
    device = next(model.parameters()).device
    with evaluating(model), torch.inference_mode():
        return survey_site(_answers(model, batches, classes, device), classes=classes)


def _answers(
    model: nn.Module, batches: Iterable[Any], classes: int, device: torch.device
) -> Iterator[tuple[Tensor, NDArray[np.uint8]]]:
    for batch in batches:
        pair = (batch["image"], batch["label"]) if isinstance(batch, Mapping) else batch
        images, masks = (torch.as_tensor(part) for part in pair)
        if not images.is_floating_point():
            images = images.to(torch.get_default_dtype())
        yield one_against_rest(model(images.to(device)), classes), class_map(masks, classes)


def one_against_rest(logits: Tensor, classes: int) -> Tensor:
    """Return one logit per foreground class, from such logits or from those of a softmax.

    >>> one_against_rest(torch.tensor([[[0.0], [2.0]]]), 1).tolist()
    [[[2.0]]]
    """
    if logits.shape[1] == classes:
        return logits
    if logits.shape[1] != classes + 1:
        wanted, found = f"{classes} or {classes + 1} classes", tuple(logits.shape)
        raise DataError(f"expected logits (case, class, *space) with {wanted}, found {found}")
    every = range(classes + 1)
    rest = [logits[:, [j for j in every if j != k]].logsumexp(1) for k in every[1:]]
    return logits[:, 1:] - torch.stack(rest, dim=1)


def class_map(masks: Tensor | ArrayLike, classes: int) -> NDArray[np.uint8]:
    """Return masks as ``(case, *space)`` with value k for class k.

    A second axis of ``classes`` or ``classes + 1`` entries holds channels if every value is 0 or 1;
    where several channels are set, the highest class wins.

    >>> class_map(torch.tensor([[[[1, 0]], [[0, 1]]]]), 2).tolist()
    [[[1, 2]]]
    """
    array = np.asarray(masks.cpu() if isinstance(masks, Tensor) else masks)
    is_binary = bool(np.isin(array, (0, 1)).all())
    if array.ndim > 3 and array.shape[1] == 1:
        array = array[:, 0]
    elif array.ndim > 3 and array.shape[1] in (classes, classes + 1) and is_binary:
        numbers = np.arange(1, classes + 1).reshape(-1, *[1] * (array.ndim - 2))
        array = (array[:, -classes:] * numbers).max(axis=1)
    if array.min(initial=0) < 0 or array.max(initial=0) > classes:
        found = f"{array.min():g} to {array.max():g}"
        raise DataError(f"expected mask values from 0 to {classes}, found {found}")
    return array.astype(np.uint8)


def stages_of(model: nn.Module, example: Tensor | None = None) -> list[Stage]:
    """Return a network's stages from input to output; every key of its state is in one of them.

    Give an example batch of images unless the network has an attribute ``stages``.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 1, 1))
    >>> [stage.name for stage in stages_of(net, torch.zeros(1, 1, 8, 8))]
    ['0', '2']
    """
    return find_stages(model, example)


def weights_of(
    surveys: Mapping[str, SiteSurvey],
    cases: Mapping[str, int],
    stages: int,
    *,
    max_share: float = 1.0,
    **options: Any,
) -> NDArray[np.float64]:
    """Return FedA3I's weights ``(site, stage)``, sites in the order of ``cases``.

    ``options`` are those of ``feda3i.quality.rate_sites``. Sites without a survey keep their share
    of the cases. ``max_share`` is the most that quality lets one site weigh at a stage; a site with
    a larger share of all cases keeps that share.

    >>> model, images = nn.Conv2d(1, 1, 3, padding=1), torch.rand(2, 1, 16, 16)
    >>> found = {n: survey(model, [(images, torch.rand_like(images).round())]) for n in "abcd"}
    >>> weights_of(found, dict.fromkeys("abcd", 5), stages=3).sum(axis=0).round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    names = list(cases)
    counts = np.array([cases[name] for name in names], dtype=np.float64)
    rating = rate_sites({name: surveys[name] for name in names if name in surveys}, **options)
    quantity = shares(counts)
    most = max(max_share, float(quantity.max()))
    return mix_by_stage(quantity, cap_shares(rating.weights(names, counts), most), stages)


def average(
    states: Sequence[State], weights: ArrayLike, stages: Sequence[Stage] = ()
) -> dict[str, Tensor]:
    """Return the weighted average of state dicts, stage by stage.

    Floating-point entries are averaged in float64, running statistics included; integer buffers
    (``num_batches_tracked``) take the largest value.

    Parameters
    ----------
    states
        One state dict per site, with equal keys.
    weights
        ``(site,)`` or ``(site, stage)``; every column sums to one.
    stages
        From ``stages_of``; needed for weights by stage.

    Examples
    --------
    >>> one, two = ({"w": torch.tensor([k]), "n": torch.tensor(k).long()} for k in (0.0, 4.0))
    >>> average([one, two], [0.75, 0.25])
    {'w': tensor([1.]), 'n': tensor(4)}
    """
    table = np.asarray(weights, dtype=np.float64)
    check_weights(table, len(states))
    place = {key: j for j, stage in enumerate(stages) for key in stage.keys}
    found = {}
    for key, first in states[0].items():
        tensors = [state[key].detach() for state in states]
        if not first.is_floating_point():
            found[key] = torch.stack(tensors).amax(0)
            continue
        column = table if table.ndim == 1 else table[:, place[key]]
        parts = [w * t.double() for w, t in zip(column.tolist(), tensors, strict=True)]
        found[key] = torch.stack(parts).sum(0).to(first.dtype)
    return found


def federation_of_arrays(
    images: ArrayLike,
    masks: ArrayLike,
    sites: Sequence[str],
    test_images: ArrayLike,
    test_masks: ArrayLike,
    classes: Sequence[str] = ("lesion",),
) -> Federation:
    """Return a federation of arrays in memory, for ``feda3i.run(recipe, folder, federation=...)``.

    Parameters
    ----------
    images, masks
        ``(case, *space, channel)`` as uint8, int16 or float32, and ``(case, *space)`` with value k
        for class k.
    sites
        Name of the site of each case.
    test_images, test_masks
        Cases that no site trains on, with masks that you trust.
    classes
        Names of the foreground classes.

    Examples
    --------
    >>> images, masks = np.zeros((4, 32, 32, 1), np.uint8), np.ones((4, 32, 32), np.uint8)
    >>> federation_of_arrays(images, masks, ["a", "a", "b", "b"], images, masks).names()
    ['a', 'b']
    """
    names = np.asarray(sites, dtype=str)

    def cases(split: str, seen: ArrayLike, drawn: ArrayLike) -> Cases:
        pixels = np.asarray(drawn).astype(np.uint8)
        return Cases(tuple(f"{split}-{k}" for k in range(len(pixels))), np.asarray(seen), pixels)

    train, test = cases("train", images, masks), cases("test", test_images, test_masks)
    if len(names) != len(train):
        raise DataError(f"expected one site for each of {len(train)} cases, found {len(names)}")
    places = {str(name): np.flatnonzero(names == name) for name in np.unique(names)}
    return Federation(train, places, test, tuple(classes), notes={"source": "arrays"})
