"""Divide a network's tensors into stages, ordered by depth, so that Eq. 7 works for any network.

A stage is a block of the architecture: the ramp of Eq. 7 rises by one step per stage, so a stage
that holds one number would count as much as a whole level. The rule, first that applies:

1. the network names its stages itself, ``stages = ("inc", "down1", ...)``: paths of modules, or
   ``stages = {"up1": ("upsample.0", "up.0"), ...}``: names and the paths that each one holds;
2. its top-level children with tensors, if there are at least three, in order of first use in a
   forward pass; a list of modules stands for its members, since only they are called;
3. the modules that hold tensors themselves, in that order (a network wrapped in one child), with
   those in one stage that follow each other at one resolution, if that gives at least three.

In 2 and 3 a module without a matrix or kernel (a norm, a PReLU) joins the one used before it, as
long as three stages remain. Buffers follow their module. A module that the pass does not call (a
head for training only, an attention's output projection) joins the one defined before it; so do
tensors of the network itself, or the first one if there is none before. Tied tensors belong to the
stage that uses them first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from feda3i.core.layout import Stage
from feda3i.errors import RecipeError, nearest

# With two stages the ramp of Eq. 7 would jump from quantity weights to quality weights at once.
FEWEST_CHILDREN = 3

Space = tuple[int, ...]


@dataclass(frozen=True)
class StageRow:
    """One line of ``feda3i explain model``: how much of the network a stage holds."""

    number: int
    name: str
    tensors: int
    parameters: int
    share: float


def find_stages(
    model: nn.Module, example: Tensor | None = None, classes: int | None = None
) -> list[Stage]:
    """Return the stages of a network from input to output; every state-dict key is in exactly one.

    Parameters
    ----------
    model
        Any network. Its mode, buffers and the random state are as before afterwards.
    example
        Images ``(case, channel, *space)`` for one forward pass in eval mode. Without them the
        network must name its stages itself.
    classes
        If given, the pass must return logits ``(case, classes, *space)``.

    Raises
    ------
    RecipeError
        If the pass fails, the logits have another shape, or stages cannot be found.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 1, 1))
    >>> [stage.name for stage in find_stages(net, torch.zeros(1, 1, 8, 8))]
    ['0', '2']
    """
    keys = _tied(model)
    own = getattr(model, "stages", None)
    calls = {} if example is None else _first_uses(model, example, classes)
    if own is not None:
        paths = dict(own) if isinstance(own, Mapping) else {name: (name,) for name in own}
        if not paths or len(paths) != len(own):
            raise RecipeError(
                f"{type(model).__name__}.stages: expected distinct names, found {list(own)}"
            )
        return _by_name(model, paths, keys)
    if example is None:
        raise RecipeError(
            f"{type(model).__name__} names no stages; give an example input to find them, "
            "or set its attribute stages to the paths of its modules"
        )
    units = _units([_child(model, key) for key in keys], calls)
    is_wrapped = len(set(units)) < FEWEST_CHILDREN
    if is_wrapped:
        units = _units([key.rpartition(".")[0] for key in keys], calls)
    order = _order(calls)
    units = _if_enough(units, _without_small(model, units, order, keys))
    if is_wrapped:
        units = _if_enough(units, _by_resolution(units, order, calls))
    return _collect(model, units, order, keys)


def stage_rows(model: nn.Module, stages: Sequence[Stage]) -> list[StageRow]:
    """Return each stage's number, name, tensors, trainable parameters and share of parameters."""
    counted: set[int] = set()
    sizes = []
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for stage in stages:
        found = {id(parameters[key]): parameters[key] for key in stage.keys if key in parameters}
        sizes.append(sum(p.numel() for i, p in found.items() if i not in counted))
        counted |= set(found)
    total = sum(sizes)
    return [
        StageRow(number, stage.name, len(stage.keys), size, size / total if total else math.nan)
        for number, (stage, size) in enumerate(zip(stages, sizes, strict=True), start=1)
    ]


def _tied(model: nn.Module) -> dict[str, str]:
    """Return ``{key: first key that names the same tensor}`` in state-dict order."""
    first: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)
    if not state:
        raise RecipeError(f"{type(model).__name__} has no tensors, so there is nothing to train")
    return {key: first.setdefault(id(value), key) for key, value in state.items()}


def _by_name(
    model: nn.Module, paths: Mapping[str, Sequence[str]], keys: dict[str, str]
) -> list[Stage]:
    kind, names = type(model).__name__, list(paths)
    found: dict[str, list[str]] = {name: [] for name in names}

    def holders(key: str) -> list[str]:
        return [n for n in names for p in paths[n] if key == p or key.startswith(f"{p}.")]

    for key, first in keys.items():
        matches = holders(key)
        if len(matches) != 1:
            problem = "in none of" if not matches else "in more than one of"
            raise RecipeError(
                f"{kind}.stages: the tensor '{key}' is {problem} the stages {', '.join(names)}; "
                "every tensor must belong to exactly one"
            )
        found[min(matches + holders(first), key=names.index)].append(key)
    for name, held in found.items():
        if not held:
            known = sorted({part for key in keys for part in _ancestors(key)})
            raise RecipeError(f"{kind}.stages: '{name}' holds no tensor{nearest(name, known)}")
    return [Stage(name, tuple(held)) for name, held in found.items()]


def _child(model: nn.Module, key: str) -> str:
    """Return the path of the top-level child that holds a tensor; lists stand for their members."""
    module: nn.Module = model
    path: list[str] = []
    for part in key.split(".")[:-1]:
        path.append(part)
        module = getattr(module, part)
        if not isinstance(module, nn.ModuleList | nn.ModuleDict):
            break
    return ".".join(path)


def _units(owners: list[str], calls: Mapping[str, Space | None]) -> list[str]:
    """Replace owners that the pass never called by a called one defined before (or after) them."""
    called = {part for call in calls for part in _ancestors(call) if part}
    used = [owner if owner in called else None for owner in owners]
    following = next((owner for owner in used if owner is not None), "")
    units = []
    for owner in used:
        following = following if owner is None else owner
        units.append(following)
    return units


def _order(calls: Mapping[str, Space | None]) -> dict[str, int]:
    """Return the position of the first use of every module, also of those around a called one."""
    order: dict[str, int] = {}
    for position, call in enumerate(calls):
        for part in _ancestors(call):
            order.setdefault(part, position)
    return order


def _if_enough(units: list[str], fewer: list[str]) -> list[str]:
    """Return the coarser division unless it leaves too few stages."""
    return fewer if len(set(fewer)) >= FEWEST_CHILDREN else units


def _without_small(
    model: nn.Module, units: list[str], order: Mapping[str, int], keys: dict[str, str]
) -> list[str]:
    """Let units without a tensor of two dimensions join the unit that is used before them."""
    state = model.state_dict(keep_vars=True)
    large = {unit for unit, key in zip(units, keys, strict=True) if state[key].ndim > 1}
    joined, last = {}, ""
    in_order = sorted(dict.fromkeys(units), key=lambda unit: order.get(unit, -1))
    first = next((unit for unit in in_order if unit in large), "")
    for unit in in_order:
        last = unit if unit in large else last
        joined[unit] = last or first
    return [joined[unit] for unit in units]


def _by_resolution(
    units: list[str], order: Mapping[str, int], calls: Mapping[str, Space | None]
) -> list[str]:
    """Put units that follow each other at one resolution together, under the name of the first."""
    joined, last = {}, ""
    space: Space | None = None
    for unit in sorted(dict.fromkeys(units), key=lambda unit: order.get(unit, -1)):
        leaves = calls.get(unit)
        if not last or (leaves is not None and leaves != space):
            last = unit
        space = leaves or space
        joined[unit] = last
    return [joined[unit] for unit in units]


def _collect(
    model: nn.Module, units: list[str], order: Mapping[str, int], keys: dict[str, str]
) -> list[Stage]:
    unit_of = dict(zip(keys, units, strict=True))
    for key, first in keys.items():  # tied: the earlier use wins for all names of the tensor
        unit_of[first] = min(unit_of[first], unit_of[key], key=lambda unit: order.get(unit, -1))
    stages: dict[str, list[str]] = {}
    for key, first in keys.items():
        stages.setdefault(unit_of[first], []).append(key)
    if len(stages) < 2:
        raise RecipeError(
            f"{type(model).__name__}: expected at least two stages, found {len(stages)}: its "
            "forward pass calls too few modules that hold tensors; set its attribute stages to "
            "the paths of its modules"
        )
    ordered = sorted(stages, key=lambda unit: order.get(unit, -1))
    return [Stage(unit, tuple(stages[unit])) for unit in ordered]


def _ancestors(path: str) -> Iterator[str]:
    """Yield the path itself and all modules around it, innermost first."""
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""


def _first_uses(model: nn.Module, example: Tensor, classes: int | None) -> dict[str, Space | None]:
    """Return the called modules in order of first call, each with the size of what it returns.

    The size is that in space, ``None`` if the module returns no image.
    """
    calls: dict[str, Space | None] = {}
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(name)

    def enter(module: nn.Module, _: Any) -> None:
        for name in names[module]:
            calls.setdefault(name, None)

    def leave(module: nn.Module, _: Any, out: Any) -> None:
        is_image = isinstance(out, Tensor) and out.ndim == example.ndim
        for name in names[module]:
            calls[name] = calls[name] or (tuple(out.shape[2:]) if is_image else None)

    handles = [module.register_forward_pre_hook(enter) for module in names]
    handles += [module.register_forward_hook(leave) for module in names]
    try:
        with _undisturbed(model):
            logits = model(example.to(next(iter(model.state_dict().values())).device))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise RecipeError(
            f"{type(model).__name__} cannot process images of shape {tuple(example.shape)} "
            f"(case, channel, *space): {error}"
        ) from error
    finally:
        for handle in handles:
            handle.remove()
    _check_logits(model, example, logits, classes)
    return calls


def _check_logits(model: nn.Module, example: Tensor, logits: Any, classes: int | None) -> None:
    found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if classes is not None and found != (len(example), classes, *example.shape[2:]):
        raise RecipeError(
            f"{type(model).__name__}: expected logits of shape "
            f"{(len(example), classes, *example.shape[2:])} (case, class, *space), found {found}"
        )


@contextmanager
def _undisturbed(model: nn.Module) -> Iterator[None]:
    """Run in eval mode without gradients; put modes, buffers and random state back afterwards."""
    modes = {module: module.training for module in model.modules()}
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        model.eval()
        try:
            yield
        finally:
            for module, training in modes.items():
                module.training = training
            for buffer, before in buffers:
                buffer.copy_(before)
