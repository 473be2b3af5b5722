"""What a plug-in imports: everything that a method, data set or noise model of your own needs.

Name it by its file (``method=my_method.py:MyMethod``), or let your package announce it as an entry
point of the group ``feda3i.methods``, ``feda3i.datasets``, ``feda3i.noise`` or ``feda3i.models``.
"""

from feda3i import losses, quality
from feda3i.core.cases import Cases, Federation
from feda3i.core.messages import Floats, Numbers, Params, Plan, Replies, Reply, Wire
from feda3i.core.server import Gathered, Server
from feda3i.core.site import Batch, Site
from feda3i.errors import DataError, RecipeError, RunError
from feda3i.methods.base import Method
from feda3i.seeding import rng

__all__ = ["Batch", "Cases", "DataError", "Federation", "Floats", "Gathered", "Method", "Numbers"]
__all__ += ["Params", "Plan", "RecipeError", "Replies", "Reply", "RunError", "Server", "Site"]
__all__ += ["Wire", "losses", "quality", "rng"]
