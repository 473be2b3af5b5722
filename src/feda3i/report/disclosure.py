"""What leaves a site, message by message, in words that an ethics board can check.

Everything here follows from the recipe and from what the method declares on its wire: the same
declaration that both sides of a run enforce.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from feda3i.core.messages import SECURE_TASKS
from feda3i.core.statistics import norms_of
from feda3i.core.wire import ALWAYS
from feda3i.engine.job import Job
from feda3i.metrics import SCORES

NUMBER, HEADER = 8, 250
"""Bytes of a number, and of what every message says of itself."""
SERVER, HANDED_ON = "server and its operator", "server and, handed on by it, the other sites"
MERGED = "other sites, and who gets the model, see only the merged network"


@dataclass(frozen=True)
class Item:
    """One kind of message: what is in it, how large it is, how often it comes, who can see it."""

    name: str
    holds: tuple[str, ...]
    size: int
    often: str
    seen: str


@dataclass(frozen=True)
class Disclosure:
    """The whole manifest of a run or of a recipe.

    ``up`` leaves a site, ``down`` comes to it; ``stays`` never leaves; ``shields`` says what secure
    aggregation and differential privacy do, ``limits`` what remains visible; ``counted`` are
    bytes by site as a network counted them, for a run that was one.
    """

    title: str
    facts: Mapping[str, str]
    up: tuple[Item, ...]
    down: tuple[Item, ...]
    stays: tuple[str, ...]
    shields: tuple[str, ...]
    limits: tuple[str, ...]
    counted: Mapping[str, int] = field(default_factory=dict)


def disclose(job: Job, title: str, sites: int | None = None) -> Disclosure:
    """Return what a job's messages hold, before it has run."""
    recipe = job.recipe
    facts = {
        "method": recipe.method.name,
        "rounds": str(recipe.rounds),
        "sites": "as many as take part" if sites is None else str(sites),
        "network": f"{recipe.model.name}, {job.layout.size:,} values in "
        f"{len(job.layout.entries)} tensors",
        "a case": f"{' x '.join(map(str, job.format.shape))}, channels: {job.format.channels}, "
        f"classes of a mask: {job.format.classes}",
        "secure aggregation": "on" if job.is_secure else "off",
        "differential privacy": "on" if recipe.privacy.on else "off",
    }
    keys = KEYS if job.is_secure else ()
    up = (HELLO, *_survey(job), _fit(job), *_measure(job), *keys, *_scores(job), REFUSAL)
    return Disclosure(title, facts, up, _down(job), STAYS, _shields(job), _limits(job))


STAYS = (
    "images, masks and predictions, whole or in part: no array of an image's size can pass as a "
    "number, and both sides check that",
    "losses and scores of single cases",
    "names of files, folders, cases and patients; errors that would name a path stay in the log "
    "of the site",
    "optimiser state and what the method remembers of single cases",
    "the site's keys",
)


HELLO = Item(
    "hello",
    (
        "name of the site",
        "number of training cases (1)",
        "channels, classes and size of a case",
        "version of feda3i, hash of the network's layout",
    ),
    HEADER + 100,
    "at every start of the node",
    SERVER,
)
REFUSAL = Item(
    "refusal",
    ("why an order was not carried out: one line, without paths",),
    HEADER + 200,
    "only if something is wrong",
    SERVER,
)


KEYS = (
    Item(
        SECURE_TASKS[0],
        ("public key of the site (32 bytes)",),
        HEADER + 80,
        "once, and after a restart of the server",
        HANDED_ON,
    ),
    Item(
        SECURE_TASKS[1],
        (
            "public key of the round (32 bytes), commitment (32 bytes)",
            "for each other site one sealed letter with shares of this round's secrets "
            "(60 bytes), which only that site can open",
        ),
        HEADER + 300,
        "every round; 130 bytes more per other site",
        HANDED_ON,
    ),
    Item(
        SECURE_TASKS[2],
        ("one share (16 bytes) of every site's secret of this round",),
        HEADER + 100,
        "every round; 60 bytes more per other site",
        SERVER,
    ),
)


def _entries(job: Job, names: Sequence[str]) -> dict[str, int]:
    """Return how many numbers stand behind each name: one, or one per class."""
    classes, wire = job.format.classes, job.method.wire
    return {name: classes if name in wire.per_class else 1 for name in names}


def _counted(entries: Mapping[str, int]) -> list[str]:
    return [f"{name} ({count})" for name, count in entries.items()]


def _survey(job: Job) -> tuple[Item, ...]:
    method = job.method
    names = method.surveyed() if job.recipe.privacy.on else method.wire.survey
    if not names:
        return ()
    noised = ", cut to a range and noised" if job.recipe.privacy.on else ""
    entries = _entries(job, names)
    holds = (
        f"one number for all cases of the site and each class{noised}: "
        f"{', '.join(_counted(entries))}",
    )
    often = "when the method surveys: as a rule once, after the warm-up"
    return (Item("survey", holds, HEADER + NUMBER * (sum(entries.values()) + 1), often, SERVER),)


def _fit(job: Job) -> Item:
    layout, method, privacy = job.layout, job.method, job.recipe.privacy
    noised = "clipped and noised, " if privacy.on else ""
    if job.is_secure:
        what = (
            f"the network after training, {noised}times the site's weight, as masked integers "
            f"({layout.size:,} of 64 bits): without the masks of all sites they are noise"
        )
        seen = f"{SERVER} see only the weighted sum of all sites; {MERGED}"
    else:
        what = f"the network after training, {noised}{layout.size:,} values of 32 bits"
        seen = f"{SERVER} see the network of each site; {MERGED}"
    holds = [what]
    if layout.integers:
        holds.append(f"numbers of batches seen by normalisation layers ({layout.integers})")
    is_silent = privacy.on and not privacy.send_loss
    names = method.wire.fit if is_silent else (*ALWAYS["fit"], *method.wire.fit)
    holds += [*_counted(_entries(job, names)), "number of cases (1), seconds (1)"]
    width = 8 if job.is_secure else 4
    size = HEADER + width * layout.size + 8 * layout.integers + NUMBER * (len(names) + 2)
    return Item("training", tuple(holds), size, "every round that the site trains in", seen)


def _measure(job: Job) -> tuple[Item, ...]:
    if job.recipe.model.statistics == "averaged":
        return ()
    norms = norms_of(job.layout)
    channels = sum(norm.channels for norm in norms)
    holds = (
        f"over all training images of the site, for each BatchNorm layer: number of values "
        f"({len(norms)}), mean and variance by channel ({channels} each)",
    )
    often = "every round" if job.recipe.model.statistics == "exact" else "once, after the last"
    size = HEADER + NUMBER * (len(norms) + 2 * channels)
    return (Item("statistics", holds, size, often, SERVER),)


def _scores(job: Job) -> tuple[Item, ...]:
    if job.recipe.privacy.on:
        return ()
    holds: tuple[str, ...] = (
        f"means over the site's test cases, and over its training cases: {', '.join(SCORES)} "
        f"({job.format.classes} each)",
    )
    often = (
        "on the network engine, when the model is scored: test cases only if the server holds "
        "none of its own, training cases once, after the last round"
    )
    if job.recipe.validation.share:
        holds += ("the same means over the site's validation cases",)
        often += f"; validation cases every {job.recipe.validation.every} rounds and after the last"
    size = HEADER + NUMBER * (len(SCORES) + 2) * job.format.classes
    return (Item("scores", holds, size, often, SERVER),)


def _down(job: Job) -> tuple[Item, ...]:
    wire, layout = job.method.wire, job.layout
    size = HEADER + 4 * layout.size + 8 * layout.integers
    holds = [f"the merged network ({layout.size:,} values of 32 bits)"]
    holds += [f"setting: {name}" for name in wire.settings]
    holds += [f"a further network: {name}" for name in wire.networks]
    items = [Item("orders", tuple(holds), size, "every message but those about keys", "this site")]
    if job.is_secure:
        holds_keys = (
            "names and public keys of the other sites",
            "the weights of all sites in every stage, from which their shares of the cases can be "
            "guessed",
            "sealed letters for this site; who was lost",
        )
        often = "every round"
        items.append(Item("secure aggregation", holds_keys, HEADER + 500, often, "all sites"))
    else:
        note = ("the recipe; no other site's name, path or number of cases",)
        items.append(Item("recipe", note, 3000, "with every message", "all sites"))
    return tuple(items)


def _shields(job: Job) -> tuple[str, ...]:
    """Return what secure aggregation and differential privacy do in this recipe."""
    secure, privacy = job.recipe.secure, job.recipe.privacy
    found = []
    if secure.on:
        is_auto = secure.dropouts == "auto"
        lost = "fewer than a third of the sites" if is_auto else f"up to {secure.dropouts} sites"
        help_ = "a third of the sites or fewer" if is_auto else "too few of the sites"
        found.append(
            f"Secure aggregation: the server can read the weighted sum of all sites' networks and "
            f"no single one, also if it lies about who was lost, as long as {help_} help it. A "
            f"round survives the loss of {lost}. At least three sites take part, and none "
            f"has more than {secure.max_weight:.0%} of the weight."
        )
    if privacy.on:
        source = (
            "the seed of the run: for simulations only, as it can be taken off again"
            if privacy.randomness == "seed"
            else "a key that each site draws for itself"
        )
        found.append(
            "Differential privacy of a whole site: updates are clipped to a norm of "
            f"{privacy.clip:g} and noised with a multiplier of {privacy.noise_multiplier:g} "
            f"(delta {privacy.delta:g}); the noise comes from {source}. The run states epsilon: "
            "smaller protects more; above 10 or so it promises little."
        )
    return tuple(found)


EXCHANGED_KEYS = (
    "Sites know each other by public keys that the server hands on. They hold each other to the "
    "first ones; unless people compare them once (identity.pub), a server that exchanged the keys "
    "from the very beginning would not be noticed."
)
SINGLE_NETWORKS = (
    "The server sees the network of every single site. From it, properties of the site's images "
    "can be inferred, in bad cases parts of images; secure.on = true hides single networks."
)
NO_BOUND = (
    "Without differential privacy there is no bound on what the networks, single or merged, tell "
    "about a case that they were trained on."
)


def _limits(job: Job) -> tuple[str, ...]:
    """Return what remains visible or possible."""
    secure, privacy = job.recipe.secure, job.recipe.privacy
    return (
        EXCHANGED_KEYS if secure.on else SINGLE_NETWORKS,
        *(() if privacy.on else (NO_BOUND,)),
        "Numbers above are visible to the server one by one, also with secure aggregation"
        f"{', with noise' if privacy.on else ''}.",
        "Who takes part when, with how many cases, and how long a site works is visible to the "
        "server; network addresses to whoever runs it.",
        "The server chooses recipe and rounds. A site runs only what it has installed, and refuses "
        "what is not declared here.",
    )
