"""Turn pairs of files into a prepared folder: parallel, streaming, resumable, same bytes.

Every case is written under a temporary name and renamed, then noted in a journal. A repeated run
trusts nothing: a case is skipped only if the published files hash as noted and our pixels do too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict, Unpack

from feda3i.data.cards import Card
from feda3i.data.partition import TEST_SHARE, check_share, split_cases
from feda3i.errors import DataError
from feda3i.files import explain_full_disk, hash_bytes, hash_pixels
from feda3i.pool import Progress, ordered_map
from feda3i.prepare.target import (
    PairResult,
    check_places,
    open_target,
    remove_cases,
    start_journal,
    write_journal,
)
from feda3i.reading.archive import FileEntry, Reader, list_entries
from feda3i.reading.csv_table import is_table
from feda3i.reading.decode import Options, decode_pair
from feda3i.reading.listing import settle
from feda3i.reading.names import unique_ids
from feda3i.reading.pairs import Pair
from feda3i.reading.prepared import (
    FORMAT,
    JOURNAL,
    IndexRow,
    digest,
    holds_arrays,
    index_digest,
    is_intact,
    manifest_seal,
    write_case,
    write_index,
    write_json,
)
from feda3i.reading.problems import CaseError, Problem, errors_of, report_lines, write_problems
from feda3i.reading.usage import Usage, usage_lines

_WORDS = {"train": "training", "test": "test", "validation": "validation"}
_VERSIONS = ("feda3i", "numpy", "opencv-python-headless", "pillow")

Finder = Callable[[Sequence[FileEntry]], tuple[list[Pair], list[Problem]]]


class Work(TypedDict, total=False):
    """How to prepare, whatever the data set.

    ``workers``: processes, all cores by default; with more than one, scripts need the usual ``if
    __name__ == "__main__":``. ``overwrite``: prepare again with other options in a folder that
    holds a prepared set. ``progress``: called with the number of pairs done and of all.
    """

    workers: int | None
    overwrite: bool
    progress: Progress | None


@dataclass(frozen=True)
class PairJob:
    """One pair to work on; ``done`` is what the journal says about it."""

    pair: Pair
    id: str
    done: tuple[IndexRow, ...] = ()
    notes: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """The result: where it is, what is in it and every problem met."""

    folder: Path
    manifest: dict[str, Any]
    problems: tuple[Problem, ...]
    usage: tuple[Usage, ...] = ()

    def text(self) -> str:
        """Return the report for the console."""
        cases = self.manifest["cases"]
        lines = [
            *(usage_lines(self.usage) if self.usage else ()),
            " and ".join(f"{count} {_WORDS[side]}" for side, count in cases.items())
            + f" cases in {self.folder}",
            f"SHA-256 of the set {self.manifest['sha256']}",
            *report_lines(self.problems),
        ]
        if self.problems:
            lines.append(f"all of them: {self.folder / 'problems.csv'}")
        return "\n".join(lines)


def prepare(
    source: Path,
    folder: Path,
    find: Finder,
    *,
    card: Card,
    options: Options,
    test_share: float = TEST_SHARE,
    seed: int = 0,
    **work: Unpack[Work],
) -> Prepared:
    """Prepare what ``find`` finds in a folder or archive, and write it to ``folder``.

    Parameters
    ----------
    find
        From the files found to pairs and problems: one function per publisher's layout.
    test_share, seed
        For sets without an official split: share of each source that is set aside, and its seed.
    work
        How to go about it; see :class:`Work`.
    """
    check_share(test_share)
    check_places(source, folder)
    with (
        explain_full_disk("free some space, then repeat the same command to go on"),
        open_target(folder) as scratch,
    ):
        entries, problems = ([], []) if is_table(source) else list_entries(source, scratch)
        pairs, wrong = find(entries)
        pairs, twice = _unique(pairs)
        problems += wrong + twice
        if not pairs:
            _raise_nothing(source, card, problems)
        options = settle(options, entries, pairs)
        record = {"options": options.record(), "set": card.name, "share": test_share, "seed": seed}
        journal = start_journal(folder, record, work.get("overwrite", False))
        outcomes = _work_on(pairs, folder, options, journal, work)
        problems += [problem for outcome in outcomes for problem in outcome.problems]
        rows = _split([row for outcome in outcomes for row in outcome.rows], test_share, seed)
        if not rows:
            _raise_nothing(source, card, problems)
        kept = {row.id for row in rows}
        remove_cases(folder, (r.id for o in journal.values() for r in o.rows if r.id not in kept))
        write_journal(folder, record, outcomes)
        write_problems(folder / "problems.csv", problems)
        write_index(folder, rows)
        manifest = _manifest(card, record, rows, problems)
        write_json(folder / "manifest.json", manifest)  # last: it says that the folder is complete
    return Prepared(folder, manifest, tuple(problems))


def run_job(job: PairJob, reader: Reader, *, folder: Path, options: Options) -> PairResult:
    """Read, decode, resize and write one pair; report what is wrong with it as a problem."""
    name = job.pair.name
    try:
        images = [reader.read(entry) for entry in job.pair.images]
        masks = [reader.read(entry) for entry in job.pair.masks]
        published = (hash_bytes(*images), hash_bytes(*masks))
        arrays = holds_arrays(options.volumes, options.channels)
        if _is_done(job, folder, published, arrays):
            return PairResult(name, job.done, job.notes)
        rows, problems = [], []
        for case in decode_pair(job.pair, images, masks, options):
            ident = f"{job.id}_z{case.part}" if case.part else job.id
            write_case(folder, ident, case.image, case.mask, len(options.classes))
            rows.append(
                IndexRow(
                    id=ident,
                    name=name,
                    source=job.pair.source,
                    site=job.pair.site,
                    split=job.pair.split,
                    group=job.pair.group or name,
                    original_size="x".join(str(side) for side in case.shape),
                    spacing_mm=" ".join(f"{s:.9g}" for s in case.spacing),
                    published_image_sha256=published[0],
                    published_mask_sha256=published[1],
                    image_sha256=hash_pixels(case.image),
                    mask_sha256=hash_pixels(case.mask),
                )
            )
            problems += [Problem("note", kind, name, text) for kind, text in case.notes]
    except CaseError as error:
        return PairResult(name, (), (error.problem(name),))
    return PairResult(name, tuple(rows), tuple(dict.fromkeys(problems)))


def _is_done(job: PairJob, folder: Path, published: tuple[str, str], arrays: bool) -> bool:
    return bool(job.done) and all(
        (row.published_image_sha256, row.published_mask_sha256) == published
        and (row.id == job.id or row.id.startswith(f"{job.id}_z"))
        and (row.source, row.site, row.split) == (job.pair.source, job.pair.site, job.pair.split)
        and is_intact(folder, row, arrays)
        for row in job.done
    )


def _work_on(
    pairs: Sequence[Pair],
    folder: Path,
    options: Options,
    journal: dict[str, PairResult],
    work: Work,
) -> list[PairResult]:
    """Run all jobs and note each in the journal as soon as it is done."""
    ids = unique_ids([p.name for p in pairs], [p.short for p in pairs])
    old = [journal.get(pair.name, PairResult(pair.name, (), ())) for pair in pairs]
    jobs = [PairJob(p, i, o.rows, o.problems) for p, i, o in zip(pairs, ids, old, strict=True)]
    for kind in ("images", "masks"):
        (folder / kind).mkdir(exist_ok=True)
    call = partial(run_job, folder=folder, options=options)
    outcomes: list[PairResult] = []
    progress = work.get("progress")
    with (folder / JOURNAL).open("a", encoding="utf-8") as file:
        for outcome in ordered_map(call, jobs, work.get("workers"), tool=Reader):
            outcomes.append(outcome)
            if outcome.rows and journal.get(outcome.name) != outcome:
                file.write(outcome.line())
                file.flush()
            if progress:
                progress(len(outcomes), len(jobs))
    return outcomes


def _unique(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Problem]]:
    """Leave out pairs that share their name with another."""
    count = Counter(pair.name for pair in pairs)
    text = "expected one case of this name: rename the files"
    twice = [Problem("error", "name twice", n, text) for n, k in sorted(count.items()) if k > 1]
    return [pair for pair in pairs if count[pair.name] == 1], twice


def _split(rows: list[IndexRow], share: float, seed: int) -> list[IndexRow]:
    """Draw the split where the publisher gives none, and sort by id."""
    rows = sorted(rows, key=lambda row: row.id)
    given = [row.split for row in rows]
    if not all(given):
        sources, groups = [row.site or row.source for row in rows], [row.group for row in rows]
        given = split_cases(sources, groups, given, share=share, seed=seed)
    return [replace(row, split=side) for row, side in zip(rows, given, strict=True)]


def _manifest(
    card: Card,
    record: dict[str, Any],
    rows: Sequence[IndexRow],
    problems: Sequence[Problem],
) -> dict[str, Any]:
    count = Counter(row.split for row in rows)
    manifest = {
        "format": FORMAT,
        **record,
        "card": asdict(card),
        "cases": {side: count[side] for side in _WORDS if count[side] or side != "validation"},
        "sources": dict(Counter(row.source for row in rows)),
        "problems": {"errors": len(errors_of(problems)), "all": len(problems)},
        "sha256": digest(rows, published=False),
        "sha256_published": digest(rows, published=True),
        "sha256_index": index_digest(rows),
        "versions": {name: version(name) for name in _VERSIONS},
    }
    return {**manifest, "seal": manifest_seal(manifest)}


def _raise_nothing(source: Path, card: Card, problems: Sequence[Problem]) -> None:
    lines = "".join(f"\n  {line}" for line in report_lines(problems))
    raise DataError(f"no usable case found in '{source}'{lines}\n{card.text()}")
