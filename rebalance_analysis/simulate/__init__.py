"""Forecasts the rebalances of a group after a recorded rebalance, until nothing moves any more. Call `forecast`.

The leader is the real one (`rebalance_analysis.rerun`); only the members are a model, which `ForecastModel` describes.
There are two leaders: `placement_leader` for a placement problem and `rebalance_leader` for a rebalance. For
`placement_leader` a member is a whole process, and a model of the pipeline holds a moved task back until its owner has
revoked it. For `rebalance_leader` a member is a stream thread with its subscription bytes, and the pipeline itself
holds the task back.
"""

from rebalance_analysis.simulate.forecasting import forecast
from rebalance_analysis.simulate.model import ForecastModel, forecast_document

__all__ = ["ForecastModel", "forecast", "forecast_document"]
