"""``feda3i check``: the site doctor."""

from __future__ import annotations

import json
from pathlib import Path

import typer


def check(
    path: Path,
    *,
    size: int | None = None,
    channels: int | None = None,
    classes: str = "",
    group: str | None = None,
    allow_unused: bool = False,
    epochs: int = 5,
    width: int = 16,
    measure: bool = True,
    mail: Path | None = None,
    problems: Path | None = None,
    workers: int | None = None,
) -> None:
    """Print what is wrong with a data folder; exit code 1 if it is not fit for training.

    Parameters
    ----------
    mail
        Write the summary without names and pixels to ``MAIL.txt`` and ``MAIL.json``.
    problems
        Write every finding with its file name to this CSV file.
    """
    from feda3i.basics.files import write_file
    from feda3i.doctor.examine import check_data
    from feda3i.doctor.summary import report_text, summarise_checkup, summary_text
    from feda3i.reading.problems import write_problems

    report = check_data(
        path,
        size=size,
        channels=channels,
        classes=[name.strip() for name in classes.split(",") if name.strip()],
        group=group,
        unused="allow" if allow_unused else "error",
        epochs=epochs,
        width=width,
        measure=measure,
        workers=workers,
    )
    print(report_text(report))
    if mail is not None:
        summary = summarise_checkup(report)
        mail.parent.mkdir(parents=True, exist_ok=True)
        write_file(mail.with_suffix(".txt"), f"{summary_text(summary)}\n".encode())
        write_file(mail.with_suffix(".json"), f"{json.dumps(summary, indent=2)}\n".encode())
        print(f"\nsafe to mail: {mail.with_suffix('.txt')} and {mail.with_suffix('.json')}")
    if problems is not None:
        write_problems(problems, report.problems)
        print(f"all findings: {problems}")
    if not report.is_fit:
        raise typer.Exit(1)
