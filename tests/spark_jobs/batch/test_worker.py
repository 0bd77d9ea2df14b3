"""How chunks are given out."""

from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from spark_engine.batch.worker import MAX_SPAN, spans
from tests.spark_jobs.batch.squares import squares_plan


@given(st.integers(0, 600), st.integers(1, 20))
def test_should_give_out_every_chunk_once_in_spans_that_get_shorter(chunks: int, cores: int) -> None:
    plan = squares_plan(chunks)
    cut = spans(plan.chunks, cores)
    assert list(chain.from_iterable(cut)) == list(plan.chunks)
    lengths = [len(span) for span in cut]
    assert all(1 <= length <= MAX_SPAN for length in lengths)
    assert all(earlier >= later for earlier, later in pairwise(lengths))


def test_should_end_with_single_chunks_when_there_are_many() -> None:
    lengths = [len(span) for span in spans(squares_plan(40).chunks, 2)]
    assert lengths == [10, 7, 5, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1]
