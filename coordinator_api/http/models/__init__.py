"""The models of bodies and answers. Each model decodes, validates and documents one body or answer.

Each field has its own example. Swagger UI and similar tools build the example of a body or an answer from the first
example of each field. For a field without an example, these tools use the default or a value of the field's type.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from coordinator_api.http.models.documents import A_MEMBER_ID, A_TIME_MS

GroupId = Annotated[str, Field(examples=["words"])]
MemberId = Annotated[str, Field(examples=[A_MEMBER_ID])]
ProcessId = Annotated[str, Field(examples=["3f0c2b1e-6c1d-4a53-9a43-2f1f5e6b7a10"])]
TaskId = Annotated[str, Field(examples=["0_1"])]
State = Annotated[str, Field(examples=["Stable"])]
Generation = Annotated[int, Field(examples=[1])]
Caller = Annotated[str, Field(examples=["auth.token, curl/8.5.0 at 127.0.0.1"])]
TimeMs = Annotated[int, Field(description="Milliseconds since the epoch.", examples=[A_TIME_MS])]


class StrictBody(BaseModel):
    """A body that a person writes. A body with an unknown field is refused, because the field's name may be
    misspelled.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
