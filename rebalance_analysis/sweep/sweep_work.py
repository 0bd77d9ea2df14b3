"""Does the work of a sweep on one chunk. A chunk contains some combinations and one group. For each combination, the
work makes a forecast from every episode of the group, and then one result row.

A chunk takes about half a second, as in all jobs (`spark_engine.batch.work`). A forecast has some tens of rebalances,
so a chunk has few forecasts. All episodes of a result row are in one chunk. If a group has very many episodes, a chunk
has a single combination and takes longer.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from assignor.errors import AssignorFault, KafkaError
from assignor.recording import RecordedPlacement, RecordedRebalance, document_of_line
from rebalance_analysis.reading.own_assignors import OwnAssignors
from rebalance_analysis.rerun import parse_recorded
from rebalance_analysis.simulate import forecast
from rebalance_analysis.simulate.model import ForecastModel
from rebalance_analysis.sweep.episodes import Episodes, GroupEpisodes, SpooledLines, read_rejects, read_spooled
from rebalance_analysis.sweep.grid import ASSIGNOR, Combination, Grid
from rebalance_analysis.sweep.own_measures import OwnMeasures
from rebalance_analysis.sweep.totals import FRONT_NAME, PLOT_NAME, TIMING_COLUMNS, EpisodeTotals, schema_of
from rebalance_analysis.what_if import changed
from rebalance_analysis.what_if.changes import Changes
from spark_engine.batch.work import ChunkOutput, Plan

FORECASTS_A_CHUNK = 16
ROWS_NAME = "forecasts"

Recorded = RecordedRebalance | RecordedPlacement


@dataclass(frozen=True, slots=True)
class CombinationsOfGroup:
    """A chunk of combinations. For each combination, forecasts are made from all episodes of one group. `first`: the
    number of the first combination. `lines`: the number of combinations, because a job counts a combination as a line.
    """

    number: int
    group: GroupEpisodes
    first: int
    lines: int


@dataclass(frozen=True, slots=True)
class RejectedLines:
    """A chunk of lines that cannot be used. `SweepWork` returns these lines as rejects."""

    number: int
    rejects: SpooledLines

    @property
    def lines(self) -> int:
        return self.rejects.count


SweepChunk = CombinationsOfGroup | RejectedLines


class _Episode(NamedTuple):
    """An episode of a group. `recorded`: the recorded rebalance. `start`: the recorded rebalance with the changes that
    apply to all combinations.
    """

    recorded: Recorded
    start: Recorded


@dataclass(frozen=True, slots=True)
class SweepWork:
    """The work of a sweep. `changes`: changes that are applied to each episode. The values of a combination are applied
    after these changes.
    """

    grid: Grid
    model: ForecastModel
    changes: Changes
    max_rounds: int
    own_assignors: OwnAssignors
    own_measures: OwnMeasures = field(default_factory=OwnMeasures)

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.grid.axes, self.own_measures.names)

    def run(self, chunks: Iterator[SweepChunk]) -> Iterator[ChunkOutput]:
        for chunk in chunks:
            if isinstance(chunk, RejectedLines):
                yield ChunkOutput(pa.RecordBatch.from_pylist([], self.schema), read_rejects(chunk.rejects))
            else:
                yield ChunkOutput(pa.RecordBatch.from_pylist(self._rows(chunk), self.schema))

    def _rows(self, chunk: CombinationsOfGroup) -> list[dict[str, object]]:
        """Returns the result rows of a chunk. Each episode is parsed only once, for all combinations. Only one episode
        is in memory at a time.
        """
        combinations = [self.grid.combination(number) for number in range(chunk.first, chunk.first + chunk.lines)]
        totals = [EpisodeTotals(own_measures=self.own_measures.names) for _ in combinations]
        for line in read_spooled(chunk.group.lines):
            episode = self._episode(line)
            for combination, total in zip(combinations, totals, strict=True):
                self._add(total, episode, combination)
        return [
            total.row(chunk.group.group_id, combination.number, self.grid.axes, combination.values)
            for combination, total in zip(combinations, totals, strict=True)
        ]

    def _episode(self, line: bytes) -> _Episode | AssignorFault:
        try:
            recorded = parse_recorded(document_of_line(line))
            return _Episode(recorded, changed(recorded, self.changes))
        except AssignorFault as error:
            return error

    def _add(self, total: EpisodeTotals, episode: _Episode | AssignorFault, combination: Combination) -> None:
        started = time.perf_counter()
        try:
            if isinstance(episode, AssignorFault):
                raise episode
            start = changed(episode.start, self._changes_of(combination))
            configs = start.problem.configs if isinstance(start, RecordedPlacement) else start.snapshot.configs
            ahead = forecast(
                start,
                self.model,
                max_rounds=self.max_rounds,
                load_own=self.own_assignors,
                as_recorded=episode.recorded,
                measure_end=self.own_measures if self.own_measures.names else None,
            )
            total.add(ahead, configs.num_standby_replicas)
        except AssignorFault as error:
            total.add_failure(error.with_hint() if isinstance(error, KafkaError) else str(error))
        except Exception as error:  # if one forecast triggers a bug, the other forecasts must continue
            total.add_failure(f"a fault of this program: {type(error).__name__}: {error}")
        total.compute_ms += (time.perf_counter() - started) * 1_000

    def _changes_of(self, combination: Combination) -> Changes:
        values = {axis.key: value for axis, value in zip(self.grid.axes, combination.values, strict=True)}
        assignor = values.pop(ASSIGNOR, None)
        return Changes(assignor=None if assignor is None else str(assignor), configs=dict(values))


def sweep_plan(work: SweepWork, episodes: Episodes, identity: dict[str, object]) -> Plan[SweepChunk]:
    """Plans the chunks of a sweep. The chunks of the groups are first. The combinations of each group are in order. The
    chunks of rejects are last.
    """
    chunks: list[SweepChunk] = []
    for group in episodes.groups:
        size = max(FORECASTS_A_CHUNK // group.episodes, 1)
        for first in range(0, len(work.grid), size):
            chunks.append(CombinationsOfGroup(len(chunks), group, first, min(size, len(work.grid) - first)))
    for rejects in episodes.rejects:
        chunks.append(RejectedLines(len(chunks), rejects))
    beside = (FRONT_NAME, PLOT_NAME)
    return Plan(work, chunks, identity, rows_name=ROWS_NAME, timing_columns=TIMING_COLUMNS, beside=beside)
