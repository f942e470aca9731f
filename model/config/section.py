"""The base class and the errors of every part of the configuration."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

Fraction = Annotated[float, Field(ge=0, lt=1)]


def refuse(message: str, *keys: str) -> PydanticCustomError:
    """Return the error of a rule between several keys; `keys` are their full dotted names."""
    return PydanticCustomError("cross_field", "{message}", {"message": message, "keys": list(keys)})


class Section(BaseModel):
    """A part of the configuration: frozen, exact types, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the keys that a frozen configuration may lack, with the plain values that they then have."""
        values = {key: field.default for key, field in cls.model_fields.items() if not field.is_required()}
        return {key: value.model_dump() if isinstance(value, Section) else value for key, value in values.items()}
