"""Computes one rebalance, from subscription bytes to assignment bytes. Source: `StreamsPartitionAssignor.assign`."""

from assignor.pipeline.streams_partition_assignor import GroupTasks, assign, gather_members, make_tasks, sum_end_offsets

__all__ = ["GroupTasks", "assign", "gather_members", "make_tasks", "sum_end_offsets"]
