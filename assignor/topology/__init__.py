"""The topology of a group, as a graph of nodes and in the form of `rebalance/1`. This package also computes the topics
and tasks of the topology.
"""
