"""`assignor simulate`: forecasts the rebalances of a group after a recorded rebalance, until the group is stable."""

from dataclasses import dataclass
from functools import partial

from assignor.errors import InputError
from assignor_cli.console import EXIT_NO, LinesSetAside, leave
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, show
from assignor_cli.tables import fitted
from rebalance_analysis.commands.pictures import PictureOption, draw_forecast
from rebalance_analysis.commands.shared_options import (
    ForecastAsked,
    Recordings,
    changes_from_options,
    choice_from_options,
    forecast_from_options,
    results_of_choice,
)
from rebalance_analysis.figures import check_picture_path, save_figure
from rebalance_analysis.presentation.comparisons import changes_text
from rebalance_analysis.presentation.forecasts import forecast_sentence, forecast_text
from rebalance_analysis.reading.lines import Line, LineChoice
from rebalance_analysis.reading.own_assignors import load_own_assignor
from rebalance_analysis.rerun import parse_recorded
from rebalance_analysis.simulate import forecast, forecast_document
from rebalance_analysis.simulate.model import End, Forecast
from rebalance_analysis.what_if import Changes, changed


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The output options of `simulate`."""

    picture: PictureOption = None
    format: FormatOption = Format.TEXT


@dataclass(frozen=True, slots=True)
class _TitledForecast:
    """A forecast with its title. `id`: the id of the recorded rebalance. `title`: the id and the changes as text."""

    id: str
    title: str
    forecast: Forecast
    document: dict[str, object]


@options_of(
    choice=choice_from_options, ahead=forecast_from_options, changes=changes_from_options, options=SimulateOptions
)
def simulate_files(
    files: Recordings, *, choice: LineChoice, ahead: ForecastAsked, changes: Changes, options: SimulateOptions
) -> None:
    """Forecast the rebalances of a group until it is stable.

    Computes the rebalances that follow a recorded rebalance. The exit code is 1 if the group never becomes stable. By
    default, one forecast starts from the last rebalance of each group. --id chooses another rebalance, and --all
    chooses every rebalance.
    """
    if options.picture is not None:
        check_picture_path(options.picture)
    set_aside = LinesSetAside()
    last: _TitledForecast | None = None
    count = 0
    stable = True
    forecast_line = partial(_forecast, ahead=ahead, changes=changes)
    for count, last in enumerate(results_of_choice(files, choice, forecast_line, set_aside), start=1):
        text = f"{chr(10) if count > 1 else ''}{forecast_text(last.title, last.document)}"
        show({"id": last.id, "forecast": last.document}, partial(fitted, text), options.format)
        stable &= last.forecast.end is End.STABLE
    if options.picture is not None and last is not None:
        if count > 1:
            raise InputError(f"shows one forecast, and these are {count}; choose with --group or --id", "--picture")
        save_figure(draw_forecast(f"{last.title}: {forecast_sentence(last.document)}", last.forecast), options.picture)
    set_aside.leave_if_any()
    if not stable:
        leave(EXIT_NO)


def _forecast(line: Line, ahead: ForecastAsked, changes: Changes) -> _TitledForecast:
    """Makes a forecast from one input line. Raises AssignorFault for a line that cannot be used."""
    as_recorded = parse_recorded(line.usable_document())
    recorded = changed(as_recorded, changes)
    forecast_ahead = forecast(
        recorded, ahead.model, max_rounds=ahead.max_rounds, load_own=load_own_assignor, as_recorded=as_recorded
    )
    what_if = f", what if {changes_text(changes)}" if changes != Changes() else ""
    document = forecast_document(forecast_ahead, ahead.model)
    return _TitledForecast(recorded.id, f"{recorded.id}{what_if}", forecast_ahead, document)
