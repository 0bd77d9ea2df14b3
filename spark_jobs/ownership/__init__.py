"""Records and shows the owners of tasks: the ownership logs that instances write, the ownership history that is
computed from these logs, and the present state of a group.
"""
