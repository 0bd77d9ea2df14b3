"""Chunks run in the process of the test, for what is not about who runs them."""

import pickle
from collections.abc import Sequence

from spark_engine.batch.work import Chunk, ChunkT, Wait
from spark_engine.batch.worker import Job, run_span


class InThisProcess:
    """Stands where the local engine's processes stand. What goes to them is pickled here, too."""

    def __init__(self, job: Job[ChunkT], spans: Sequence[Sequence[ChunkT]], processes: int) -> None:
        self._sent = pickle.dumps((job, spans))

    def __enter__(self) -> Wait:
        return self._wait

    def __exit__(self, *_: object) -> None:
        pass

    def _wait(self, timeout_s: float) -> bool:
        """Runs everything; nothing is left after it."""
        received: tuple[Job[Chunk], Sequence[Sequence[Chunk]]] = pickle.loads(self._sent)
        job, spans = received
        for span in spans:
            run_span(job, span, 0)
        return False
