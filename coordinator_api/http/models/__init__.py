"""What bodies and answers may hold. Each is one model, which decodes, validates and documents."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StrictBody(BaseModel):
    """A body that a person writes: an unknown field may be a typo, so it is refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
