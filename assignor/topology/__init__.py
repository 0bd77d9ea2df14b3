"""The topology of a group, as a graph of nodes and in the form of `rebalance/1`. This package also computes the topics
and tasks of the topology.
"""

from assignor.names.moved_modules import MOVED_FROM_TOPOLOGY, name_new_modules

name_new_modules(__path__, MOVED_FROM_TOPOLOGY)
