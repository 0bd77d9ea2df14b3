"""Logs and shows the owners of tasks. Instances write ownership logs, from which the ownership history is computed. The
coordinator and the instances show the present state of a group.
"""
