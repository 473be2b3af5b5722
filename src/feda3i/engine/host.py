"""A station answers orders for the sites whose cases it can reach; both engines use it.

Site memory lies on its disk, one file per site, round and task. An order reads the newest memory
from before it: repeated after a crash, it finds what it found the first time.
"""

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from feda3i.core.cases import Cases, Index
from feda3i.core.messages import TASKS, Numbers, Order, Reply
from feda3i.core.predictor import DeviceStack, room_on
from feda3i.core.site import CaseFacts, Site
from feda3i.core.trees import pack, seal, unpack, unseal
from feda3i.core.wire import MOVE, check_order, check_reply
from feda3i.engine import redrawing
from feda3i.engine.job import Job
from feda3i.errors import RunError, WireError
from feda3i.files import make_private, write_file

Memory = dict[str, NDArray[Any]]


class SiteHost:
    """Hold one network and answer orders for any of the given sites, one after the other."""

    def __init__(
        self, job: Job, cases: Cases, sites: Mapping[str, Index], memory_folder: Path
    ) -> None:
        self.job = job
        self.cases = cases
        self.sites = sites
        self.predictor = job.predictor()
        self.layout = self.predictor.layout
        if self.predictor.device.type == "cuda":  # pick the same kernels on every repeat
            torch.backends.cudnn.deterministic = True
            torch.backends.cudnn.benchmark = False
        if job.recipe.engine.deterministic:
            torch.use_deterministic_algorithms(True, warn_only=True)
        self.memory_folder = memory_folder
        self._facts: dict[int, CaseFacts] = {}
        self._moved: dict[str, tuple[Any, Site]] = {}
        room = 0 if job.format.patches else room_on(self.predictor.device)
        self._resident = {
            kind: DeviceStack(getattr(cases, kind), self.predictor.device, room)
            for kind in ("images", "masks")
            if room
        }

    def answer(self, order: Order) -> Reply:
        """Do what the order asks and return the reply; only declared things come out."""
        started = time.perf_counter()
        method = self.job.method
        check_order(order, method.wire, self.layout)
        if order.site not in self.sites:
            raise WireError(f"an order for site '{order.site}' reached a station without it")
        self.predictor.load(order.params)
        memory = {} if order.task == "offsets" else self.recall(order)
        had_memory = bool(memory)
        site = self._redrawn(self._site(order, memory), order)
        if order.task == "offsets":
            numbers: Numbers = {**redrawing.tell(site)}
        else:
            numbers = method.fit(site) if order.task == "fit" else method.survey(site)
        params = self.layout.read(self.predictor.network) if order.task == "fit" else None
        seconds = time.perf_counter() - started
        about = order.task, order.round, order.site, len(site)
        reply = Reply(*about, numbers, params, seconds=seconds)
        check_reply(reply, method.wire, self.layout, self.job.format.classes)
        if site.memory or had_memory:  # a memory that was emptied must not come back
            self.remember(order, site.memory)
        return reply

    def _site(self, order: Order, memory: Memory) -> Site:
        return Site(
            name=order.site,
            round=order.round,
            cases=self.cases,
            index=np.asarray(self.sites[order.site]),
            predictor=self.predictor,
            received=order.params,
            networks=order.networks,
            settings=order.settings,
            memory=memory,
            training=self.job.recipe.train.in_round(order.round, self.job.recipe.rounds),
            seed=self.job.recipe.seed,
            facts=self._facts,
            resident=self._resident,
        )

    def _redrawn(self, site: Site, order: Order) -> Site:
        """Return the site with its contours where the order wants them; they move once."""
        by = order.settings.get(MOVE)
        if not by:
            return site
        if site.name not in self._moved or self._moved[site.name][0] != by:
            self._moved[site.name] = by, redrawing.redrawn(site, by)
        moved = self._moved[site.name][1]
        return replace(site, masks=moved.masks, facts=moved.facts)

    def recall(self, order: Order) -> Memory:
        """Return the site's memory from before this order; empty if it has none yet."""
        stored = self._stored(order.site)
        before = [key for key in stored if key < _key(order)]
        if before:
            memory: Memory = self._read(order.site, max(before))["memory"]
            return memory
        if stored and tuple(self._read(order.site, stored[0])["first"]) < _key(order):
            raise RunError(
                f"the memory of site {order.site} from before round {order.round} is gone: the "
                f"checkpoint is too old to be resumed; repeat the run in another folder"
            )
        return {}

    def remember(self, order: Order, memory: Memory) -> None:
        """Store the memory after this order; drop what no resume can need any more."""
        make_private(self.memory_folder)  # a method may keep masks there
        stored = [key for key in self._stored(order.site) if key < _key(order)]
        first = self._read(order.site, stored[-1])["first"] if stored else list(_key(order))
        tree = {"first": first, "memory": memory}
        write_file(self._file(order.site, _key(order)), seal(pack(tree)))
        # A round may be played again that others have played already: see ``engine.guarding``.
        earlier = [key for key in stored if key < (order.round - 1, 0)]
        for key in earlier[:-1]:
            self._file(order.site, key).unlink(missing_ok=True)

    def _read(self, site: str, key: tuple[int, int]) -> dict[str, Any]:
        path = self._file(site, key)
        try:
            tree: dict[str, Any] = unpack(unseal(path.read_bytes()))
        except (OSError, WireError) as error:
            raise RunError(f"the memory of site {site} cannot be read: {path}: {error}") from None
        return tree

    def _stored(self, site: str) -> list[tuple[int, int]]:
        pattern = re.compile(re.escape(file_name_of(site)) + r"\.(\d+)\.(\d)\.memory")
        found = (pattern.fullmatch(file.name) for file in self.memory_folder.glob("*.memory"))
        return sorted((int(m[1]), int(m[2])) for m in found if m)

    def _file(self, site: str, key: tuple[int, int]) -> Path:
        return self.memory_folder / f"{file_name_of(site)}.{key[0]:06d}.{key[1]}.memory"


def _key(order: Order) -> tuple[int, int]:
    return order.round, TASKS.index(order.task)


def file_name_of(site: str) -> str:
    """Return a file name for a site; names from outside must not choose a path."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", site):
        return site
    return "site-" + hashlib.sha256(site.encode()).hexdigest()[:24]
