"""``feda3i redraw``: masks whose contours are moved back by each site's own habit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feda3i.commands.app import Classes, Trusted
from feda3i.errors import DataError, RecipeError
from feda3i.values import split_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from feda3i.reading.decode import RawCase
    from feda3i.reading.match import Pair
    from feda3i.report.gallery import Picture

MOST = 24  # cases on the page of before and after


def redraw(
    source: Annotated[Path, typer.Argument(help="Tree of sites: images with their masks.")],
    target: Annotated[Path, typer.Argument(help="New folder: same layout and formats.")],
    trusted: Trusted = None,
    trusted_site: Annotated[str, typer.Option(help="Site whose masks are right.")] = "",
    classes: Classes = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say who moves, write nothing.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Put the given masks back.")] = False,
) -> None:
    """Write masks with contours moved back by what each site draws too large or too small."""
    from feda3i.audit import redraw as work
    from feda3i.audit.pictures import page_of_cases
    from feda3i.engine.transport import one_thread
    from feda3i.files import write_file

    if undo:
        print(f"{work.undo(source, target)} masks are again as given in {target}")
        return
    if trusted is not None and trusted_site:
        raise RecipeError("--trusted and --trusted-site exclude each other; choose one")
    if target.exists() and any(target.iterdir()):
        raise DataError(f"'{target}' is not empty: choose a new folder")
    if target.resolve().is_relative_to(source.resolve()):
        raise DataError(f"'{target}' lies in '{source}': choose a folder outside of it")
    with one_thread():
        listing = work.open_tree(source, split_names(classes))
        good = None if trusted is None else work.open_tree(trusted, split_names(classes))
        decision = work.decide(listing, good, trusted_site)
        print("\n".join(decision.told()))
        if dry_run:
            return
        pictures: dict[str, list[Picture]] = {}
        keep = partial(_keep, pictures)
        count, evidence = work.write_tree(listing, target, decision, keep)
    for site, pairs in sorted(evidence.items()):
        before, after = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
        print(f"{site}: evidence of the edges at contours {before:.3f} before, {after:.3f} after")
    print(f"{count} masks redrawn, all others and the images copied: {target}")
    if count:
        title = f"{source.name}: masks redrawn"
        page = page_of_cases(title, "Before and after", pictures, decision.told())
        write_file(target / "redrawn.html", page.encode("utf-8", "backslashreplace"), mode=0o600)
        print(f"page   {target / 'redrawn.html'} and {work.CHANGES}: they show cases and stay here")


def _keep(
    pictures: dict[str, list[Picture]], case: Pair, raw: RawCase, after: NDArray[np.uint8]
) -> None:
    import numpy as np

    from feda3i.audit.redraw import byte_values
    from feda3i.data.division import home
    from feda3i.report.gallery import Picture

    mine = pictures.setdefault(home(case), [])
    if len(mine) * len(pictures) >= MOST:
        return
    image = np.clip(byte_values(raw.image), 0, 255).astype(np.uint8)
    masks = {"given": np.asarray(raw.mask), "redrawn": after}
    words = f"{np.count_nonzero(raw.mask)} px before, {np.count_nonzero(after)} after"
    mine.append(Picture(case.id, home(case), None, image, masks, words))
