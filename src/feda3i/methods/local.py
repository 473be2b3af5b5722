"""Local: every site trains alone; nothing is shared.

Paper
    None: the lower reference row. It shows what a site reaches without the others.
What changes against FedAvg
    Every site goes on from its own network of the round before. The test scores are those of the
    sites' networks, one row per case and network, so that the mean over rows is that over sites.
What leaves the site
    The network's parameters, the number of cases, the mean training loss, only because the engine
    keeps and scores networks at the server; no site receives another's.
Departures
    None. The model file of the run holds the mean of the sites' networks, weighted by cases: it is
    not what the scores belong to.
"""

from typing import ClassVar

from feda3i.core.messages import Numbers, Params, Plan, Replies, Wire
from feda3i.core.server import Gathered, Server
from feda3i.core.site import Site
from feda3i.methods.base import Method


class Local(Method):
    """One network per site, kept in ``server.state["models"]``."""

    wire: ClassVar[Wire] = Wire(networks=("own",))

    def start(self, server: Server) -> None:
        """Keep the initialisation: a site that comes late must not begin from the others' mean."""
        server.state["start"] = server.params
        server.state["models"] = {}

    def plan(self, server: Server, round: int) -> Plan:
        """Send every site its own network back."""
        kept: dict[str, Params] = server.state["models"]
        start: Params = server.state["start"]
        own = {site: {"own": kept.get(site, start)} for site in server.sites} if kept else {}
        return Plan(gather=True, networks=own)

    def fit(self, site: Site) -> Numbers:
        """Go on from the site's own network."""
        if "own" in site.networks:
            site.load(site.networks["own"])
        return super().fit(site)

    def merge(self, server: Server, replies: Replies, gathered: Gathered) -> Params:
        """Keep what each site sent; a site that is missing keeps what it had."""
        kept: dict[str, Params] = server.state["models"]
        kept.update((name, gathered.params(k)) for k, name in enumerate(replies.sites))
        return super().merge(server, replies, gathered)


METHOD = Local
