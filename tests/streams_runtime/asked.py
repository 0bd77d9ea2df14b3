"""A handler of errors that notes what it was asked about."""

from streams_runtime.processors.api import FailedRecord, HandlerResponse


class AskedHandler:
    """`response`: what it answers. `about`: the failed records, in the order in which they failed."""

    def __init__(self, response: HandlerResponse = HandlerResponse.CONTINUE) -> None:
        self.response = response
        self.about: list[FailedRecord] = []

    def __call__(self, failed: FailedRecord) -> HandlerResponse:
        self.about.append(failed)
        return self.response

    @property
    def nodes(self) -> list[tuple[str, int]]:
        """The node that failed, and the offset of the input record; -1 in a punctuation."""
        return [(failed.node, failed.metadata.offset) for failed in self.about]
