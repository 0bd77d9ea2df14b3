"""The topology of a group: as a graph of nodes, as `rebalance/1` carries it, and the topics and tasks that follow."""

from __future__ import annotations

from assignor.names.moved_modules import MOVED_FROM_TOPOLOGY, name_new_modules

name_new_modules(__path__, MOVED_FROM_TOPOLOGY)
