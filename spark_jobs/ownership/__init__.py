"""The owners of tasks: the ownership logs that instances write, the history from these logs, and the state of the
group.
"""
