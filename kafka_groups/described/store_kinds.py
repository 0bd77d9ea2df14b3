"""Which kinds a store can be, as far as the names of a described topology tell: key-value, windowed, versioned. Pure.

The DSL generates a name for each store that the user does not name, and the name shows the call. Only a table can be
versioned, and only with a store of the user's own, which has the user's name. A store that the user named can be what
the processors that use it allow. How long a windowed or versioned store keeps its records is in no name.
Source: `KStreamImplJoin`, `KStreamImpl`, `KTableImpl`, `KGroupedStreamImpl`, `InternalStreamsBuilder.newStoreName`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from assignor.topology.definition import ProcessorNode
from assignor.topology.group_topology import ChangelogType

StoreKinds = tuple[ChangelogType, ...]
"""Those that are possible, in the order of `ChangelogType`."""

KEY_VALUE: StoreKinds = (ChangelogType.UNWINDOWED,)
_TABLE: StoreKinds = (ChangelogType.UNWINDOWED, ChangelogType.VERSIONED)
_AGGREGATE: StoreKinds = (ChangelogType.UNWINDOWED, ChangelogType.WINDOWED)
JOIN_WINDOW: StoreKinds = (ChangelogType.WINDOWED,)
_ANY: StoreKinds = tuple(ChangelogType)

_NUMBER = r"-\d{10}"
_AGGREGATE_STORE = re.compile(rf"(?:COGROUP)?KSTREAM-(?:AGGREGATE|REDUCE)-STATE-STORE{_NUMBER}", re.ASCII)
_GENERATED_STORE = re.compile(rf".+-STATE-STORE{_NUMBER}", re.ASCII)
_JOIN_WINDOW_STORE = re.compile(
    rf"(?:KSTREAM-(?:JOIN|OUTER)(?:THIS|OTHER){_NUMBER}|.+-(?:outer-)?(?:this|other)-join)-store", re.ASCII
)
_JOIN_HELPER = re.compile(rf"KSTREAM-OUTERSHARED{_NUMBER}-store|.+-(?:outer|left)-shared-join-store", re.ASCII)
_FOREIGN_KEY_STORE = re.compile(r"(.+)-subscription-store", re.ASCII)
_JOIN_WINDOW_USER = re.compile(rf"KSTREAM-WINDOWED{_NUMBER}|.+-(?:this|other)-windowed", re.ASCII)
_TABLE_USER = re.compile(rf"(?:KTABLE-[A-Z-]+|KSTREAM-TOTABLE){_NUMBER}", re.ASCII)


def possible_kinds(store: str, users: Sequence[ProcessorNode], repartition_topics: Collection[str]) -> StoreKinds:
    """`users`: the processors that use the store, the one that fills it first. `repartition_topics`: of the topology,
    under their short names.
    """
    if _AGGREGATE_STORE.fullmatch(store):
        return _AGGREGATE
    foreign_key = _FOREIGN_KEY_STORE.fullmatch(store)
    if foreign_key and f"{foreign_key[1]}-subscription-registration-topic" in repartition_topics:
        return KEY_VALUE
    is_buffer = store == f"{users[0].name}-Buffer"  # of a stream's records that wait for a table with a grace period
    if is_buffer or _GENERATED_STORE.fullmatch(store) or _JOIN_HELPER.fullmatch(store):
        return KEY_VALUE
    if _JOIN_WINDOW_STORE.fullmatch(store) or any(_JOIN_WINDOW_USER.fullmatch(user.name) for user in users):
        return JOIN_WINDOW
    return _TABLE if _TABLE_USER.fullmatch(users[0].name) else _ANY
