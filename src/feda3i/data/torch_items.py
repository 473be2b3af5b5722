"""A federation of a torch ``Dataset``, or of anything with ``len(d)`` and ``d[i]``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_origin

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from feda3i.core.cases import Cases, Federation
from feda3i.core.resize import Aspect, resize_image, resize_mask
from feda3i.data.division import Count, Dividing, home, plan_cases
from feda3i.errors import DataError
from feda3i.reading.listing import Listed, Listing
from feda3i.reading.names import SPLITS
from feda3i.reading.options import DEFAULT_CLASSES, Options

Pixels = NDArray[np.uint8]

_MASK_KEYS = ("mask", "label", "segmentation", "target")


def gives_items(thing: Any) -> bool:
    """Return whether a thing is a torch ``Dataset``, a class of them, or a function that says so.

    What does not say so is never called: a plug-in may be any name in any module.
    """
    if isinstance(thing, Mapping):
        return bool(thing) and all(gives_items(one) for one in thing.values())
    if isinstance(thing, type) or not callable(thing):
        return _is_torch(thing if isinstance(thing, type) else type(thing))
    made = inspect.signature(thing).return_annotation if inspect.isfunction(thing) else None
    if isinstance(made, str):
        return made.rpartition(".")[2].partition("[")[0] == "Dataset"
    return _is_torch(get_origin(made) or made)


def _is_torch(kind: Any) -> bool:
    """Return whether a class is one of torch's data sets; torch itself need not be loaded."""
    names = ((base.__module__, base.__name__) for base in getattr(kind, "__mro__", ()))
    return any(m.startswith("torch.utils.data") and n == "Dataset" for m, n in names)


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class Items(Dividing):
    """The options of a torch data set that are ours."""

    size: Count | None = None
    aspect: Aspect = "squeeze"
    classes: tuple[str, ...] = DEFAULT_CLASSES


def federation_of_items(data: Any, how: Items = Items()) -> Federation:  # noqa: B008  frozen
    """Read every item once and divide the cases among sites.

    ``data`` is a data set, or site -> data set. An item is ``(image, mask)``, or a table with
    ``image``, ``mask`` and perhaps ``id``, ``site``, ``source``, ``split``, ``patient``. Images are
    ``(channel, *space)``, ``(*space, channel)`` or ``(*space)``, of 0..1 or 0..255; masks hold 0
    and 1 (or 255), or 0..C.
    """
    options = Options(size=how.size, aspect=how.aspect, classes=how.classes)
    listed, images, masks = [], [], []
    for case, image, mask in _items(data, options):
        listed.append(case)
        images.append(image)
        masks.append(mask)
    if len({image.shape for image in images}) != 1:
        shapes = sorted({str(image.shape) for image in images})
        found = ", ".join(shapes[:3]) or "none"
        raise DataError(f"expected items of one size, found {found}: give data.size")
    plan = plan_cases(Listing(Path("."), tuple(listed), options), how)
    place = {case.id: i for i, case in enumerate(listed)}
    trained = [plan.train[i] for part in plan.parts.values() for i in part]
    both = Cases(
        ids=tuple(case.id for case in listed),
        images=np.stack(images),
        masks=np.stack(masks),
        sources=tuple(case.source for case in listed),
        sites=tuple(plan.homes.get(home(c), "") for c in listed) if plan.homes else (),
        groups=tuple(case.group for case in listed),
    )
    ends = np.cumsum([0, *(len(part) for part in plan.parts.values())])
    return Federation(
        train=both.take(np.array([place[case.id] for case in trained])),
        sites={s: np.arange(a, b) for s, a, b in zip(plan.parts, ends[:-1], ends[1:], strict=True)},
        test=both.take(np.array([place[plan.tests[i].id] for i in plan.wanted])),
        classes=options.classes,
        notes={"partition": plan.partition, "seed": how.seed, "items": len(listed)},
    )


def _items(data: Any, options: Options) -> Iterator[tuple[Listed, Pixels, Pixels]]:
    """Yield every item as a case with its pixels."""
    by_site = data.items() if isinstance(data, Mapping) else [("", data)]
    names: set[str] = set()
    for site, one in by_site:
        if not (hasattr(one, "__getitem__") and hasattr(one, "__len__")):
            raise DataError(f"expected a data set with len() and [i], found {type(one).__name__}")
        for i in range(len(one)):
            image, mask, facts = _parts(one[i], i)
            name = str(facts.get("id", f"{i:05d}"))
            name = f"{site}/{name}" if site else name
            if name in names:
                raise DataError(f"expected one item with the id '{name}', found two")
            names.add(name)
            case = _case(name, str(site or facts.get("site", "")), facts)
            yield case, *_pixels(name, image, mask, options)


def _parts(item: Any, number: int) -> tuple[Any, Any, Mapping[str, Any]]:
    if isinstance(item, Mapping):
        key = next((key for key in _MASK_KEYS if key in item), None)
        if "image" in item and key is not None:
            return item["image"], item[key], item
        found = f"a table with {', '.join(map(str, item))}"
    elif isinstance(item, Sequence) and len(item) >= 2:
        facts = item[2] if len(item) > 2 and isinstance(item[2], Mapping) else {}
        return item[0], item[1], facts
    else:
        found = type(item).__name__
    raise DataError(
        f"item {number}: expected (image, mask) or a table with 'image' and 'mask', found {found}"
    )


def _case(name: str, site: str, facts: Mapping[str, Any]) -> Listed:
    split = str(facts.get("split", "")).lower()
    if split and split not in SPLITS:
        raise DataError(f"item '{name}': expected split train, test or validation, found '{split}'")
    group = str(facts.get("patient", facts.get("group", name)))
    source = str(facts.get("source", ""))
    return Listed(name, name, source, site, SPLITS.get(split, ""), group, ())


def _pixels(name: str, image: Any, mask: Any, options: Options) -> tuple[Pixels, Pixels]:
    picture, drawn = _array(image), _array(mask)
    if drawn.ndim > 2 and drawn.shape[0] == 1 and drawn.ndim == picture.ndim:
        drawn = drawn[0]
    if picture.shape == drawn.shape:
        picture = picture[..., None]
    elif picture.shape[1:] == drawn.shape:
        picture = np.moveaxis(picture, 0, -1)
    if picture.shape[:-1] != drawn.shape or drawn.ndim not in (2, 3):
        raise DataError(
            f"item '{name}': expected an image (channel, *space) and a mask (*space), found "
            f"{picture.shape} and {drawn.shape}"
        )
    pixels, labels = _to_bytes(name, picture), _to_labels(name, drawn, len(options.classes))
    if options.size is None:
        return np.ascontiguousarray(pixels), labels
    size = (options.size,) * labels.ndim
    return resize_image(pixels, size, options.aspect), resize_mask(labels, size, options.aspect)


def _array(value: Any) -> NDArray[Any]:
    """Return a tensor, a PIL picture or an array as an array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def _to_bytes(name: str, values: NDArray[Any]) -> Pixels:
    if values.dtype == np.uint8:
        return np.asarray(values, np.uint8)
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    if not (low >= 0 and high <= 255):
        raise DataError(
            f"item '{name}': expected image values of 0..1 or 0..255, found {low:g} to {high:g}; "
            "leave the transform that normalises out"
        )
    scale = 255.0 if high <= 1 and values.dtype.kind in "fb" else 1.0
    return np.rint(values * scale).astype(np.uint8)


def _to_labels(name: str, values: NDArray[Any], classes: int) -> Pixels:
    found = set(np.unique(values).tolist())
    if classes == 1 and len(found - {0}) <= 1 and found <= {0, 1, 255}:
        return (values > 0).astype(np.uint8)
    if not found <= set(range(classes + 1)):
        few = ", ".join(f"{value:g}" for value in sorted(found)[:6])
        raise DataError(
            f"item '{name}': expected mask values 0 to {classes} (one per class), found {few}"
        )
    return values.astype(np.uint8)
