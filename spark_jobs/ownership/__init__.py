"""Records and shows the owners of tasks. Instances write ownership logs, the ownership history is computed from these
logs, and the present state of a group is read from the coordinator and the instances.
"""
