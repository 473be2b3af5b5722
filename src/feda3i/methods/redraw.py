"""Redraw: every site moves its contours by how far it draws beside the others, then FedAvg.

Paper
    None: an idea of this project. docs/why/offsets.md has its figures.
What changes against FedAvg
    Masks only: the name is short for ``method=fedavg redraw.on=true``, and ``redraw.on`` puts the
    same before any other method. Before its first training a site measures, from its images and
    masks alone, by how many pixels it draws outside (or inside) the border of best contrast, with a
    standard error. The server treats the sites as a random-effects meta-analysis: what all share is
    nobody's fault, what is reliably a site's own is taken back. Each site then trains on masks with
    the contours moved by its part; the given masks stay as they are, and no object is shrunk by
    more than 0.6 of its inner radius.
The border that is meant
    Good annotators do not draw on the border of best contrast exactly: in dermoscopy some 3 px
    outside of it, at 256 px a side. Trusted masks tell: a folder of them or names of sites
    (``redraw.trusted``), or the number that was measured on them (``redraw.b0``). Without any, the
    mean of the sites is taken, drawn towards 1 px by how much the sites differ.
When nothing is moved
    A site with fewer than 8 cases with a contour, or whose images show no border, a diffuse one or
    two of them. All sites: if they differ by chance only; if trusted masks lie more than 8 px from
    the border; and without trusted masks if they share an offset that is large against their
    objects: the image shows another border than is drawn, as with a cup in its disc.
What leaves the site
    Before the first training, for each class: the offset in px at 256, its standard error, the
    number of cases it rests on and the objects' inner radius (all 0 if it cannot be told).
"""

from feda3i.methods.base import Method


class Redraw(Method):
    """FedAvg; the engine redraws the masks (``feda3i.engine.redrawing``)."""


METHOD = Redraw
