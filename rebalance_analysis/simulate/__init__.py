"""What a group does after a recorded rebalance, until nothing moves any more. `forecast` is the way in.

The leader is the real one (`rebalance_analysis.rerun`); only the members are a model, which `ForecastModel` describes.
"""

from rebalance_analysis.simulate.forecasting import forecast
from rebalance_analysis.simulate.model import (
    End,
    Forecast,
    ForecastModel,
    ForecastRebalance,
    ForecastTrigger,
    Loop,
    forecast_document,
)

__all__ = [
    "End",
    "Forecast",
    "ForecastModel",
    "ForecastRebalance",
    "ForecastTrigger",
    "Loop",
    "forecast",
    "forecast_document",
]
