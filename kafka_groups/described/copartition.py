"""The text of `Topology#describe` does not always show which sources are co-partitioned. This module then chooses among
the alternatives.

If all alternatives lead to the same partition counts of the repartition topics, one of them is chosen. The choice is
reported as an assumption. If the alternatives lead to different counts, the topics of the cluster may show the right
alternative. If the topics do not show the right alternative, the caller has to choose.
Source: `CopartitionedTopicsEnforcer`, `InternalTopologyBuilder.copartitionGroups`.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assignor.errors import InputError
from assignor.topology.definition import TopologyDefinition
from kafka_groups.described.shown_joins import Copartitioning, Sources, copartitionings

COPARTITIONED = "--copartitioned"
NOT_COPARTITIONED = "--not-copartitioned"
"""The options with which a user names topics that are co-partitioned, or not co-partitioned."""

_MOST_ORDERS = 120
"""The largest number of orders of DSL calls that are tried. Five DSL calls have 120 possible orders."""

MISSING_TOPICS = "source topics are missing"
"""The text that `CopartitionChoice.outcome` returns if the cluster lacks source topics of the topology."""


@dataclass(frozen=True, slots=True)
class CopartitionFacts:
    """The caller's facts about co-partitioned topics. `together`: sets of topics; Kafka requires equal numbers of
    partitions within each set. `apart`: sets of topics; Kafka does not require equal numbers of partitions within each
    set. A topic name may begin with the application id or lack it.
    """

    together: Collection[frozenset[str]] = ()
    apart: Collection[frozenset[str]] = ()

    def __bool__(self) -> bool:
        return bool(self.together or self.apart)


@dataclass(frozen=True, slots=True)
class CopartitionChoice:
    """Chooses the co-partitioned sources if the text of `Topology#describe` leaves several alternatives open. The
    caller's facts or the topics of the cluster determine the choice. If all alternatives have the same outcome, the
    first alternative is chosen.

    `outcome`: a function that takes groups of co-partitioned sources and returns the partition counts of all
    repartition topics. If Kafka would refuse the topics, this function returns a text with the reason. If the topics of
    the cluster are not known, `outcome` is None. `existing`: the full names of the topics of the cluster. `has_run`:
    True if the group has completed a rebalance, which shows that Kafka accepted the topics.
    """

    definition: TopologyDefinition
    application_id: str
    facts: CopartitionFacts
    existing: Collection[str]
    outcome: Callable[[tuple[Sources, ...]], Mapping[str, int] | str] | None
    has_run: bool

    def decided(self) -> tuple[tuple[Sources, ...], tuple[str, ...]]:
        """Returns the groups of co-partitioned source nodes, and the assumptions. The order of the groups is the order
        in which the application's program added the joins.

        Raises InputError if the caller's facts do not fit the topology, or if the caller has to choose among
        alternatives.
        """
        shown = copartitionings(self.definition)
        found = [self._by_facts(each) for each in shown]
        given = tuple(
            sources
            for sources in self._given_groups()
            if not any(set(sources) == set(each.alternatives[0]) for each in found if len(each.alternatives) == 1)
        )
        certain = tuple(each.alternatives[0] if len(each.alternatives) == 1 else () for each in found) + given
        open_ = [index for index, each in enumerate(found) if len(each.alternatives) > 1]
        chosen = list(certain)
        assumptions: list[str] = []
        questions: dict[frozenset[frozenset[str]], str] = {}
        for index in open_:
            each = found[index]
            outcomes = self._outcomes(certain, index, each.alternatives)
            decided = self._by_running_tasks(each, outcomes)
            if decided is None:
                alternatives = frozenset(map(self._topics, each.alternatives))
                questions.setdefault(alternatives, self._question(each, outcomes))
                continue
            chosen[index] = decided
            assumptions.append(self._assumption(each, decided))
        if questions:
            raise InputError("; ".join(questions.values()), "co-partitioned topics")
        self._check_answers(shown, chosen)
        return self._in_order(found, chosen), tuple(dict.fromkeys(assumptions))

    def _check_answers(self, shown: Sequence[Copartitioning], chosen: Sequence[Sources]) -> None:
        """Checks the facts that the user gave about co-partitioned topics. A fact names only topics, so it may fit
        several joins. Raises InputError if several joins fit and the outcome depends on the choice among them.
        """
        if self.outcome is None:
            return
        for topics in self.facts.together:
            answered: dict[str, list[int]] = {}
            for index, each in enumerate(shown):
                if len(each.alternatives) > 1 and self._topics(chosen[index]) == self._short(topics):
                    answered.setdefault(each.call, []).append(index)
            if len(answered) < 2:
                continue
            for indexes in answered.values():
                outcomes = [self.outcome(self._in_order(shown, chosen))]
                for alternative in shown[indexes[0]].alternatives:
                    changed = [alternative if index in indexes else each for index, each in enumerate(chosen)]
                    outcomes.append(self.outcome(self._in_order(shown, changed)))
                if any(outcome != outcomes[0] for outcome in outcomes):
                    nodes = ", ".join(shown[indexes[0]].node for indexes in answered.values())
                    raise InputError(
                        f"the answer {','.join(sorted(topics))} fits several joins and cogroups: {nodes}. "
                        f"{_consequence(outcomes)}; give the topology as JSON",
                        COPARTITIONED,
                    )

    def _in_order(self, found: Sequence[Copartitioning], chosen: Sequence[Sources]) -> tuple[Sources, ...]:
        """Returns the groups of co-partitioned sources, in the order of the DSL calls in the application's program. The
        order matters, because Kafka's builder merges each group of sources into an earlier group that has the same
        topic. If several earlier groups fit, the builder uses the first of them.

        `found`: the joins and cogroups. `chosen`: first the chosen sources of each element of `found`, then the groups
        that the caller named. Raises InputError if the outcome depends on the order of the calls, and the names of
        nodes do not show this order.
        """
        calls = [(each, group) for each, group in zip(found, chosen, strict=False) if group]
        named = tuple(filter(None, chosen[len(found) :]))
        orders = _possible_orders([(each.earliest, each.latest) for each, _ in calls])
        groups = dict.fromkeys(
            (*(calls[index][1] for index in order), *named) for order in itertools.islice(orders, _MOST_ORDERS)
        )
        first = next(iter(groups))
        if self.outcome is None or len(groups) == 1:
            return first
        outcomes = {each: self.outcome(each) for each in groups}
        if self._ran(itertools.chain.from_iterable(first)):
            outcomes = {each: outcome for each, outcome in outcomes.items() if not isinstance(outcome, str)} or outcomes
        different = list(outcomes.values())
        if all(each == different[0] for each in different):
            return next(iter(outcomes))
        hidden = [each.node for each, _ in calls if each.earliest < each.latest]
        raise InputError(
            "the text does not say in which order the program made the joins and cogroups with names of its own: "
            f"{', '.join(hidden)}. {_consequence(different)}; give the topology as JSON",
            "co-partitioned topics",
        )

    def _by_facts(self, found: Copartitioning) -> Copartitioning:
        """Returns a copy of a Copartitioning with only the alternatives that the caller's facts allow."""
        left = [sources for sources in found.alternatives if not self._is_apart(sources)]
        if not left:
            if len(found.alternatives) == 1:
                names = ", ".join(sorted(self._topics(found.alternatives[0])))
                raise InputError(f"a join or cogroup needs equal numbers of partitions of {names}", NOT_COPARTITIONED)
            return replace(found, alternatives=((),))
        known = [
            sources
            for sources in left
            if sources and any(self._topics(sources) <= self._short(topics) for topics in self.facts.together)
        ]
        if known:  # several alternatives can fit a fact: choose the one with the most topics
            return replace(found, alternatives=(max(known, key=lambda sources: len(self._topics(sources))),))
        return replace(found, alternatives=tuple(left))

    def _is_apart(self, sources: Sources) -> bool:
        topics = self._topics(sources)
        return any(self._short(apart) <= topics for apart in self.facts.apart)

    def _given_groups(self) -> tuple[Sources, ...]:
        read = {topic: name for name in self.definition.nodes for topic in self.definition.source_topics(name)}
        for option, groups in ((COPARTITIONED, self.facts.together), (NOT_COPARTITIONED, self.facts.apart)):
            for topics in groups:
                unread = sorted(self._short(topics) - read.keys())
                if unread:
                    raise InputError(f"the topology does not read {', '.join(unread)}", option)
                if len(topics) < 2:
                    raise InputError(f"name at least two topics, not {', '.join(topics)} alone", option)
        return tuple(
            tuple(dict.fromkeys(read[topic] for topic in sorted(self._short(topics)))) for topics in self.facts.together
        )

    def _outcomes(
        self, certain: tuple[Sources, ...], index: int, alternatives: tuple[Sources, ...]
    ) -> list[Mapping[str, int] | str]:
        if self.outcome is None:
            return [{} for _ in alternatives]
        before, after = certain[:index], certain[index + 1 :]
        return [self.outcome(tuple(filter(None, (*before, each, *after)))) for each in alternatives]

    def _by_running_tasks(self, found: Copartitioning, outcomes: Sequence[Mapping[str, int] | str]) -> Sources | None:
        """If the outcomes and the topics of the cluster show the right alternative, returns this alternative. Otherwise
        returns None, and the caller has to choose.
        """
        if all(each == outcomes[0] for each in outcomes) and outcomes[0] != MISSING_TOPICS:
            return found.alternatives[0]
        accepted = [
            each for each, outcome in zip(found.alternatives, outcomes, strict=True) if not isinstance(outcome, str)
        ]
        ran = self._ran(source for sources in found.alternatives for source in sources)
        return accepted[0] if ran and len(accepted) == 1 else None

    def _ran(self, sources: Iterable[str]) -> bool:
        """Returns True if Kafka has accepted the topics of these source nodes. Kafka has accepted the topics in two
        cases: the group has run, or the repartition topics of these source nodes exist.
        """
        internal = [
            self.definition.full_topic(topic, self.application_id)
            for topic in self._topics(sources)
            if topic in self.definition.repartition_topics
        ]
        return self.has_run or (bool(internal) and all(topic in self.existing for topic in internal))

    def _question(self, found: Copartitioning, outcomes: Sequence[Mapping[str, int] | str]) -> str:
        topics = [self._topics(each) for each in found.alternatives]
        groups = [",".join(sorted(each)) for each in topics if len(each) > 1]
        ways = [f"{COPARTITIONED} {group}" for group in groups]
        if len(groups) < len(topics):
            ways += [f"{NOT_COPARTITIONED} {group}" for group in groups]
        return (
            f"the text does not say whether Kafka requires equal numbers of partitions of {' or of '.join(groups)}: "
            f"{found.reason}. {_consequence(outcomes)}; say {' or '.join(ways)}"
        )

    def _assumption(self, found: Copartitioning, chosen: Sources) -> str:
        topics = {topic for sources in found.alternatives for topic in self._topics(sources)}
        names = ", ".join(sorted(self.definition.full_topic(topic, self.application_id) for topic in topics))
        choice = "co-partitioned" if chosen else "not co-partitioned"
        return f"assumed to be {choice}: {names}: {found.reason}"

    def _topics(self, sources: Iterable[str]) -> frozenset[str]:
        return frozenset(topic for source in sources for topic in self.definition.source_topics(source))

    def _short(self, topics: Iterable[str]) -> frozenset[str]:
        """Removes the application id from the names of internal topics."""
        prefix = f"{self.application_id}-"
        return frozenset(
            topic.removeprefix(prefix) if topic.removeprefix(prefix) in self.definition.repartition_topics else topic
            for topic in topics
        )


def _possible_orders(calls: Sequence[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """Yields the possible orders of DSL calls. If the order of the list `calls` is possible, it comes first. `calls`:
    for each DSL call, the smallest and the largest number that the DSL can have given to the call.
    """

    begun: list[tuple[tuple[int, ...], int]] = [((), min((earliest for earliest, _ in calls), default=0))]
    while begun:
        order, reached = begun.pop()
        left = [index for index in range(len(calls)) if index not in order]
        if not left:
            yield order
            continue
        first_to_end = min(calls[index][1] for index in left)
        for index in reversed(left):
            number = max(reached, calls[index][0])
            if number <= first_to_end:  # Each later call gets this number or a higher number.
                begun.append(((*order, index), number))


def _consequence(outcomes: Sequence[Mapping[str, int] | str]) -> str:
    if MISSING_TOPICS in outcomes:
        return "What it decides is not known while source topics are missing"
    counts = [each for each in outcomes if not isinstance(each, str)]
    if len(counts) < len(outcomes):
        refusals = sorted({each for each in outcomes if isinstance(each, str)})
        return f"It decides whether the group runs: {', '.join(refusals)}"
    texts = [
        f"{topic} ({' or '.join(str(each.get(topic)) for each in counts)})"
        for topic in sorted({topic for each in counts for topic in each})
        if len({each.get(topic) for each in counts}) > 1
    ]
    return f"It decides the partitions of {', '.join(texts)}"
