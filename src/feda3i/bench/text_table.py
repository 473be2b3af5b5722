"""A table of text, as Markdown, CSV and LaTeX."""

import re
from dataclasses import dataclass

from feda3i.files import csv_text

_LATEX = {
    **{sign: rf"\{sign}" for sign in "&%#_${}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "->": r"$\to$", "<": "$<$", ">": "$>$"},
}
_SIGNS = re.compile("|".join(map(re.escape, sorted(_LATEX, key=len, reverse=True))))


@dataclass(frozen=True)
class Table:
    """Cells of text under a header; ``**x**`` is bold. ``name`` names the file and the label."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def to_markdown(self) -> str:
        """Return a Markdown table under its title."""
        cells = [[cell.replace("|", "/") for cell in row] for row in (self.header, *self.rows)]
        header, *body = [f"| {' | '.join(row)} |" for row in cells]
        lines = [self.title, "", header, "|" + "---|" * len(self.header), *body]
        return "\n".join(lines + (["", self.note] if self.note else []))

    def to_csv(self) -> str:
        """Return comma-separated values without the bold marks."""
        plain = [[cell.replace("**", "") for cell in row] for row in self.rows]
        return csv_text(self.header, plain)

    def to_latex(self) -> str:
        """Return a table environment in the style of booktabs."""
        header, *body = [" & ".join(map(latex, row)) + r" \\" for row in (self.header, *self.rows)]
        lines = [
            *(r"\begin{table}", r"\centering"),
            rf"\caption{{{latex(' '.join([self.title, self.note]).strip())}}}",
            rf"\label{{tab:{self.name}}}",
            rf"\begin{{tabular}}{{{'l' + 'c' * (len(self.header) - 1)}}}",
            *(r"\toprule", header, r"\midrule", *body, r"\bottomrule"),
            *(r"\end{tabular}", r"\end{table}"),
        ]
        return "\n".join(lines)


def latex(text: str) -> str:
    r"""Return text with LaTeX's signs escaped and bold marks turned into commands.

    >>> print(latex("**N_S** 50 %"), latex("< 0.001"))
    \textbf{N\_S} 50 \% $<$ 0.001
    """
    text = _SIGNS.sub(lambda found: _LATEX[found[0]], text)
    return re.sub(r"\*\*(.+?)\*\*", r"\\textbf{\1}", text)
