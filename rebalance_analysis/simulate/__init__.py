"""What a group does after a recorded rebalance, until nothing moves any more. `forecast` is the way in.

The leader is the real one (`rebalance_analysis.rerun`); only the members are a model, which `ForecastModel` describes.
A placement problem has another leader than a rebalance (`placement_leader`, `rebalance_leader`). They differ in what a
member is (a whole process, or a stream thread with its bytes), and in who holds a moved task back until its owner has
given it up (a model of the pipeline, or the pipeline itself).
"""

from rebalance_analysis.simulate.forecasting import forecast
from rebalance_analysis.simulate.model import ForecastModel, forecast_document

__all__ = ["ForecastModel", "forecast", "forecast_document"]
