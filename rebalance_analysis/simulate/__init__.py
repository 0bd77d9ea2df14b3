"""Forecasts the rebalances of a group after a recorded rebalance, until no task moves any more. The entry point is the
function `forecast`.

A forecast uses the real leader (`rebalance_analysis.rerun`) and a model of the members, which `ForecastModel`
describes. `placement_leader` forecasts a placement problem, and `rebalance_leader` forecasts a rebalance. In
`placement_leader`, a member is a whole process. In `placement_leader`, a model of the assignment pipeline holds a moved
task back until the task's owner has revoked the task. In `rebalance_leader`, a member is a stream thread with its
subscription bytes. In `rebalance_leader`, the assignment pipeline itself holds a moved task back.
"""

from rebalance_analysis.simulate.forecasting import forecast
from rebalance_analysis.simulate.model import ForecastModel, forecast_document

__all__ = ["ForecastModel", "forecast", "forecast_document"]
