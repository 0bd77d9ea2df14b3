"""Rounds ahead: what a group does from a recorded round on, until nothing moves any more. `forecast` is the way in.

The leader is the real one (`assignor.rounds`); only the members are a model, which `ForecastModel` describes.
"""
