"""Forecasts the rebalances of a group after a recorded rebalance, until no task moves any more. Call the function
`forecast`. A forecast uses the real leader (`rebalance_analysis.rerun`) and a model of the members. `ForecastModel` has
the assumptions of this model. `placement_leader` makes the forecast of a placement problem. In this forecast, a member
is a whole process. A model of the assignment pipeline holds a moved task back until its owner has revoked it.
`rebalance_leader` makes the forecast of a rebalance. In this forecast, a member is a stream thread with its
subscription bytes. The assignment pipeline itself holds a moved task back until its owner has revoked it.
"""

from rebalance_analysis.simulate.forecasting import forecast
from rebalance_analysis.simulate.model import ForecastModel, forecast_document

__all__ = ["ForecastModel", "forecast", "forecast_document"]
