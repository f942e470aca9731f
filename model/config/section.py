"""The base class of all sections of the configuration, and the errors for broken rules."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

Fraction = Annotated[float, Field(ge=0, lt=1)]


def refuse(message: str, *keys: str) -> PydanticCustomError:
    """Return the error for values that break a rule about several keys; `keys` are the full dotted keys."""
    return PydanticCustomError("cross_field", "{message}", {"message": message, "keys": list(keys)})


class Section(BaseModel):
    """An immutable section of the configuration. It refuses unknown keys, values of a wrong type, infinity and NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
