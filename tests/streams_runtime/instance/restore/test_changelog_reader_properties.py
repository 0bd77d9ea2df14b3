"""Whatever happens in whatever order: stores hold exactly the records that they may."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from assignor.types import TopicPartition
from streams_runtime.common.states import TaskType
from streams_runtime.instance.restore.changelog_metadata import ChangelogMetadata
from streams_runtime.logs.base import RecordBatch
from tests.examples import share
from tests.streams_runtime.instance.restore.failing_log import FailingLog
from tests.streams_runtime.instance.restore.restoring import APPLICATION, Restoring, contents, create, numbered, write
from tests.streams_runtime.logs.reading_and_writing import commit

USERS = TopicPartition("users", 0)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 30)),
        st.tuples(st.just("commit"), st.integers(0, 100)),
        st.tuples(st.just("restore"), st.just(0)),
        st.tuples(st.just("wait"), st.sampled_from([500, 1_000])),
        st.tuples(st.just("reassign"), st.just(0)),
    ),
    max_size=20,
)


@share(0.6)
@given(steps=STEPS, batch=st.integers(1, 40))
def test_should_keep_a_standby_of_a_source_topic_within_its_limit(steps: list[tuple[str, int]], batch: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = FailingLog()
        restoring = Restoring(Path(directory), log, restore_batch_records=batch)
        create(log, USERS.topic)
        commit(log, APPLICATION, {USERS: 0})
        standby = restoring.add(USERS, standby=True, source=True)
        restoring.reader.transit_to_update_standby()
        end = committed = 0
        for step, number in steps:
            if step == "write":
                write(log, USERS, numbered(end, end + number))
                end += number
            elif step == "commit":
                committed = max(committed, min(end, number))
                commit(log, APPLICATION, {USERS: committed})
            elif step == "restore":
                restoring.restore(others_run=True)
                applied = standby.state.changelog_offsets()[USERS]
                assert applied <= committed
                assert standby.content() == contents(0, applied)
            elif step == "wait":
                restoring.clock.advance(number)
            else:
                restoring.reader.unregister([USERS])
                restoring.reader.register(USERS, standby.state)
                restoring.reader.transit_to_update_standby()
        for _ in range(end // batch + 3):
            restoring.clock.advance(1_000)
            restoring.restore()
        assert standby.content() == contents(0, committed)
        restoring.close()


class _Store:
    name = "counts"


class _Metadata:
    store = _Store()
    offset = None


class _State:
    task_id = None
    task_type = TaskType.ACTIVE

    def metadata(self, partition: TopicPartition) -> _Metadata:
        return _Metadata()

    def changelog_as_source(self, partition: TopicPartition) -> bool:
        return False


@given(offsets=st.sets(st.integers(0, 200), min_size=1).map(sorted), end=st.integers(0, 220), dense=st.booleans())
def test_should_split_batches_exactly_at_the_end(offsets: list[int], end: int, dense: bool) -> None:
    columns = range(offsets[0], offsets[-1] + 1) if dense else offsets
    size = len(columns)
    batch = RecordBatch(USERS, columns, [0] * size, [b"%d" % each for each in columns], [None] * size)
    changelog = ChangelogMetadata(USERS, _State())  # type: ignore[arg-type]
    changelog.end = end
    inside, rest = changelog.split(batch)
    assert [offset for part in (inside, rest) if part for offset in part.offsets] == list(columns)
    assert inside is None or all(offset < end for offset in inside.offsets)
    assert rest is None or all(offset >= end for offset in rest.offsets)
    assert inside is None or list(inside.keys) == [b"%d" % each for each in inside.offsets]
