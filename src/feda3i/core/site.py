"""A site at work: its cases as batches, its memory, and the training loop that methods use."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from feda3i.core.augment import PRESETS, Places, change_values, draw_places
from feda3i.core.cases import Cases, Index
from feda3i.core.layout import Layout
from feda3i.core.messages import Numbers, Params, Settings
from feda3i.core.normalise import Line, apply_lines
from feda3i.core.patches import cut_out, draw_corner, foreground_places, slide
from feda3i.core.predictor import (
    BATCH,
    DeviceStack,
    Predictor,
    channels_last,
    channels_second,
    evaluating,
    image_tensor,
    on_device,
)
from feda3i.core.ragged import Ragged, stacked
from feda3i.core.stepper import Stepper
from feda3i.core.training import Training
from feda3i.errors import RunError
from feda3i.seeding import rng, torch_rng


@dataclass(frozen=True)
class Batch:
    """Some cases of a site on its device.

    ``positions`` count within the site; ``images`` are ``(case, channel, *space)`` on the scale of
    0..255, ``masks`` are ``(case, class, *space)`` of 0 and 1, as given by the annotator.
    """

    positions: Index
    images: Tensor
    masks: Tensor
    epoch: int = 0
    places: Places | None = None
    """Where an augmented batch takes its pixels from; ``None`` if they are where they were."""
    corners: tuple[tuple[int, ...], ...] | None = None
    """Where each patch begins in its case (``core.patches``); ``None`` if cases are whole."""

    def __len__(self) -> int:
        return len(self.positions)

    def cut(self, kept: Sequence[NDArray[Any]]) -> Tensor:
        """Return what is kept of these cases at their own sizes, cut out as their images were.

        ``kept`` holds ``(class, *space)`` of each case of the batch. The result is ``(case, class,
        *space)``, 0 where a patch leaves its case; it still has to ``follow`` augmentation.
        """
        if self.corners is not None:
            size = tuple(self.images.shape[2:])
            pairs = zip(kept, self.corners, strict=True)
            kept = [np.stack([cut_out(one, at, size) for one in case]) for case, at in pairs]
        return torch.from_numpy(np.stack(kept)).to(self.images.device)

    def follow(self, values: Tensor, *, smooth: bool = False) -> Tensor:
        """Return what is known of these cases pixel by pixel, moved as their images were.

        Masks and choices ``(case, class, *space)`` as they are, predictions with ``smooth``.
        """
        if self.places is None:
            return values
        moved = self.places(values if smooth else values.to(self.images.dtype), smooth=smooth)
        return moved.to(values.dtype)


@dataclass(frozen=True)
class CaseFacts:
    """What is known of a case: how it is normalised, and places of the classes in its mask."""

    line: Line
    foreground: list[NDArray[np.int64]]


@dataclass
class Site:
    """What a method sees of a site while it answers one order."""

    name: str
    round: int  # of this order, counted from 1
    cases: Cases
    index: Index
    predictor: Predictor
    received: Params
    networks: Mapping[str, Params]  # further ones that the server sent
    settings: Settings  # flags and numbers that the server sent
    memory: dict[str, NDArray[Any]]
    """Arrays that the site keeps between rounds and never sends. Index them by position of the case
    within the site; change or add entries freely."""
    training: Training
    seed: int
    facts: dict[int, CaseFacts] = field(default_factory=dict)
    """What is known of cases by their place in ``cases``; a station keeps it between orders."""
    resident: Mapping[str, DeviceStack] = field(default_factory=dict)
    """All images and masks where a GPU has room for them; a host keeps them between orders."""
    masks: Sequence[NDArray[np.uint8]] | None = None
    """Masks in place of those in ``cases``, by position of the case within the site."""

    def __len__(self) -> int:
        return len(self.index)

    @property
    def network(self) -> nn.Module:
        """Return the network that this site trains; at first it holds the received parameters."""
        return self.predictor.network

    @property
    def layout(self) -> Layout:
        """Return where the network's tensors are in flat vectors."""
        return self.predictor.layout

    @property
    def classes(self) -> int:
        """Return the number of foreground classes."""
        return self.predictor.format.classes

    @property
    def device(self) -> torch.device:
        """Return where the network works."""
        return self.predictor.device

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the size in space of what is trained on: a case, or a patch of one."""
        return self.predictor.format.shape if self.is_patched else self.cases.shape

    @property
    def is_patched(self) -> bool:
        """Return whether the site trains on patches of its cases."""
        return self.predictor.format.patches

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Return the size in space of every case, by its position within the site."""
        if isinstance(self.cases.masks, Ragged):
            return [tuple(shape) for shape in self.cases.masks.shapes[self.index].tolist()]
        return [self.cases.shape] * len(self)

    def rng(self, *scope: str | int) -> np.random.Generator:
        """Return a generator for this site, round and scope."""
        return rng(self.seed, *scope, self.name, self.round)

    def torch_rng(self, *scope: str | int) -> torch.Generator:
        """Return a torch generator (CPU) for this site, round and scope."""
        return torch_rng(self.seed, *scope, self.name, self.round)

    def given_masks(self, positions: Sequence[int] | Index | None = None) -> Any:
        """Return the given masks ``(case, *space)`` with values 0..C; copies."""
        where = np.arange(len(self)) if positions is None else np.asarray(positions)
        if self.masks is None and not self.cases.is_ragged:
            return self.cases.masks[self.index[where]]
        return stacked([np.array(self.mask_of(k)) for k in where.tolist()])

    def mask_of(self, position: int) -> NDArray[np.uint8]:
        """Return the mask ``(*space)`` of one case at its own size; not to be changed."""
        if self.masks is not None:
            return self.masks[position]
        return np.asarray(self.cases.masks[int(self.index[position])])

    def batch(self, positions: Index, epoch: int = 0) -> Batch:
        """Return these cases, or a patch of each drawn for this epoch, on the site's device."""
        if self.is_patched:
            return self._patches(positions, epoch)
        where = self.index[positions]
        images = channels_second(self._taken("images", where))
        if not self.predictor.format.normalise.is_none:
            images = apply_lines(images, [self.facts_of(k).line for k in where])
        own = self.masks is not None
        given = self.given_masks(positions) if own else self._taken("masks", where)
        return Batch(positions, images, mask_tensor(given, self.classes, self.device), epoch)

    def _taken(self, kind: str, where: Index) -> Tensor:
        """Return raw pixels at these places of ``cases`` on the site's device."""
        if kind in self.resident:
            return self.resident[kind].take(where)
        return on_device(getattr(self.cases, kind)[where], self.device)

    def facts_of(self, place: int) -> CaseFacts:
        """Return how a case is normalised and where its foreground is; found once."""
        place = int(place)
        if place not in self.facts:
            line = self.predictor.format.normalise.line(self.cases.images[place])
            mask = self.cases.masks[place]
            places = foreground_places(mask, self.classes) if self.is_patched else []
            self.facts[place] = CaseFacts(line, places)
        return self.facts[place]

    def _patches(self, positions: Index, epoch: int) -> Batch:
        """Draw a patch of each case; the draw depends on site, round, epoch and case only."""
        size, given = self.predictor.format.shape, self.training.foreground
        share = 0.5 if given is None else given
        images, masks, lines, corners = [], [], [], []
        for position in positions:
            place = int(self.index[position])
            mask, known = self.mask_of(position), self.facts_of(place)
            draw = self.rng("patch", epoch, int(position))
            corner = draw_corner(mask.shape, size, known.foreground, share, draw)
            images.append(cut_out(self.cases.images[place], corner, size, known.line.low))
            masks.append(cut_out(mask, corner, size))
            lines.append(known.line)
            corners.append(corner)
        tensor = apply_lines(image_tensor(np.stack(images), self.device), lines)
        drawn = mask_tensor(np.stack(masks), self.classes, self.device)
        return Batch(positions, tensor, drawn, epoch, corners=tuple(corners))

    def order(self, epoch: int) -> Index:
        """Return the positions of all cases in an order drawn for this site, round and epoch."""
        return self.rng("batches", epoch).permutation(len(self))

    def batches(self, epoch: int = 0, order: Index | None = None) -> Iterator[Batch]:
        """Yield cases as batches: all of them once in the epoch's order, or as ``order`` names."""
        order = self.order(epoch) if order is None else order
        for start in range(0, len(order), self.training.batch):
            yield self.batch(order[start : start + self.training.batch], epoch)

    def voxels(self) -> NDArray[np.float64] | None:
        """Return ``(case, dimension)`` relative sizes of voxels; ``None`` where sides are equal."""
        sizes = self.cases.voxels()
        return None if sizes is None else sizes[self.index]

    def load(self, params: Params) -> None:
        """Put parameters into the network."""
        self.predictor.load(params)

    def train(
        self, step: Callable[[Batch], Tensor], order: Callable[[int], Index] | None = None
    ) -> Numbers:
        """Run the recipe's epochs of ``step`` and its optimiser; return the last epoch's loss.

        ``order`` chooses the cases of an epoch, by default all of them.
        """
        self.network.train()
        stepper = Stepper(self.network, self.training, self.device)
        mean = math.nan
        for epoch in range(self.training.epochs):
            chosen = (order or self.order)(epoch)
            # Added up on the device: a number of every step would have a GPU wait for it.
            total = torch.zeros((), dtype=torch.float64, device=self.device)
            for batch in self.augmented(self.batches(epoch, chosen), epoch):
                with stepper.precision():
                    loss = step(batch)
                stepper.take(loss)
                total += loss.detach().double() * len(batch)
            mean = float(total / len(chosen))
            if not math.isfinite(mean):
                raise RunError(
                    f"the training loss became {mean} at site {self.name} in round {self.round}; "
                    f"try a smaller train.lr (now {self.training.lr:g})"
                )
        return {"loss": mean}

    def augmented(self, batches: Iterable[Batch], epoch: int) -> Iterator[Batch]:
        """Yield batches as the recipe's ``train.augment`` changes them for the training."""
        preset = PRESETS.get(self.training.augment)
        if preset is None:
            yield from batches
            return
        draw, voxels = self.rng("augment", epoch), self.voxels()
        for batch in batches:
            sizes = None if voxels is None else voxels[batch.positions]
            images, masks = batch.images, batch.masks
            places = draw_places(preset, draw, images, sizes)
            if places is not None:
                images, masks = places(images, smooth=True), places(masks, smooth=False)
            images = change_values(preset, draw, images)
            images = images.contiguous(memory_format=channels_last(images.ndim - 2))
            yield replace(batch, images=images, masks=masks, places=places)

    def predict(self) -> Iterator[tuple[Batch, Tensor]]:
        """Yield all cases in order with their logits, in eval mode and without gradients."""
        with evaluating(self.network):  # also while the caller looks at a batch
            whole = (self._whole(position) for position in range(len(self)))
            yield from whole if self.is_patched else self._in_order(0)

    def _in_order(self, epoch: int) -> Iterator[tuple[Batch, Tensor]]:
        for start in range(0, len(self), BATCH):
            batch = self.batch(np.arange(start, min(start + BATCH, len(self))), epoch)
            yield batch, self.predictor.logits(batch.images)

    def _whole(self, position: int) -> tuple[Batch, Tensor]:
        place = int(self.index[position])
        images, logits = self.predictor.whole(self.cases.images[place], self.facts_of(place).line)
        masks = mask_tensor(np.array(self.mask_of(position))[None], self.classes, self.device)
        return Batch(np.array([position]), images, masks), logits

    def predict_epochs(self) -> Iterator[tuple[Batch, Tensor]]:
        """Yield what the epochs of this round train on, before augmentation, with its logits.

        Whole cases once, since they are the same in every epoch; else the patches of each epoch.
        """
        if not self.is_patched:
            yield from self.predict()
            return
        for epoch in range(self.training.epochs):
            yield from self._in_order(epoch)

    def answers(self, batch: Batch, forward: Callable[[Tensor], Tensor]) -> Tensor:
        """Return what ``forward`` says of a batch of ``predict``, as its logits were made.

        Where the site trains on patches, it gets windows that slide over the whole case.
        """
        if not self.is_patched:
            return forward(batch.images)
        line = self.facts_of(int(self.index[batch.positions[0]])).line
        fill, form = torch.from_numpy(line.fill).to(batch.images), self.predictor.format
        return slide(batch.images[0], form.shape, forward, fill, form.overlap)[None]


def mask_tensor(masks: NDArray[np.uint8] | Tensor, classes: int, device: torch.device) -> Tensor:
    """Return ``(case, *space)`` values 0..C as ``(case, class, *space)`` floats of 0 and 1."""
    tensor = masks if isinstance(masks, Tensor) else on_device(masks, device)
    found = torch.stack([tensor == k + 1 for k in range(classes)], dim=1)
    return found.to(torch.get_default_dtype())
