"""Results as JSON: server state is data, and JSON has no NaN."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, TypeAdapter

FloatArray = NDArray[np.float64]


def to_json(values: FloatArray) -> Any:
    """Return nested lists with ``None`` for what is not finite.

    >>> to_json(np.array([[0.5, np.nan]]))
    [[0.5, None]]
    """
    kept = values.astype(object)
    kept[~np.isfinite(values)] = None
    return kept.tolist()


Floats = Annotated[
    FloatArray,
    PlainValidator(lambda data: np.array(data, dtype=np.float64)),  # ``None`` becomes ``NaN``
    PlainSerializer(to_json),
]
"""A field of a ``Plain``: an array in the code, nested lists in JSON."""


class Plain:
    """A dataclass of pydantic that becomes plain data and comes back."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without what is unknown."""
        adapter: TypeAdapter[Any] = TypeAdapter(type(self))
        return dict(adapter.dump_python(self, mode="json", exclude_none=True))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the result that ``to_dict`` wrote."""
        return TypeAdapter(cls).validate_python(data)
