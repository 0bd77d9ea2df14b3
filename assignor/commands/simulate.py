"""`assignor simulate`: what a group does from a recorded round on, until it is stable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from assignor.commands.change_options import changes_from_options
from assignor.commands.console import EXIT_NO, EXIT_UNUSABLE, Format, as_line, leave, say
from assignor.commands.model_options import ForecastAsked, forecast_from_options
from assignor.commands.option_groups import options_of
from assignor.commands.simulate_picture import draw
from assignor.commands.simulate_text import forecast_text
from assignor.commands.what_if_text import changes_text
from assignor.errors import AssignorFault, InputError
from assignor.figures import check_picture_path, save_figure
from assignor.reading.chosen_rebalances import ChosenRebalances
from assignor.reading.lines import Line
from assignor.reading.own_assignors import load_own_assignor
from assignor.rerun import parse_recorded
from assignor.simulate import End, Forecast, ForecastModel, forecast, forecast_document
from assignor.what_if import Changes, changed


@dataclass(frozen=True, slots=True)
class _Asked:
    rounds: ChosenRebalances
    changes: Changes
    model: ForecastModel
    max_rounds: int


@dataclass(frozen=True, slots=True)
class _Answer:
    title: str
    id: str
    forecast: Forecast


def register(app: typer.Typer) -> None:
    app.command("simulate")(simulate_files)


@options_of(ahead=forecast_from_options, changes=changes_from_options)
def simulate_files(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Recordings, or - for stdin.")],
    *,
    id: Annotated[str | None, typer.Option("--id", help="From the round with this id.")] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="G", help="Only this group.")] = None,
    all: Annotated[bool, typer.Option("--all", help="From every round.")] = False,
    ahead: ForecastAsked,
    changes: Changes,
    picture: Annotated[
        str | None, typer.Option("--picture", metavar="F", help="Draw the one forecast: a .svg or .png file.")
    ] = None,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Forecast the rounds that follow a recorded one, until the group is stable. Exit 1 when it never is.

    Takes the last round of each group, unless --id names one or --all asks for every one.
    """
    if picture is not None:
        check_picture_path(picture)
    asked = _Asked(ChosenRebalances(tuple(files), id, group, all), changes, ahead.model, ahead.max_rounds)
    _answer_all(asked, picture, format)


def _answer_all(asked: _Asked, picture: str | None, format: Format) -> None:
    answers: list[_Answer] = []
    answered = unusable = 0
    stable = True
    for line in asked.rounds.lines():
        try:
            answer = _answer(line, asked)
        except AssignorFault as error:
            unusable += 1
            say(f"{line.where}: {error}")
            continue
        _print(answer, asked.model, format, first=not answered)
        answered += 1
        stable &= answer.forecast.end is End.STABLE
        answers = [answer]
    if not answered and not unusable:
        raise InputError("there is no such round", " ".join(asked.rounds.files))
    if picture is not None and answers:
        if answered > 1:
            raise InputError(f"shows one forecast, and these are {answered}; choose with --group or --id", "--picture")
        save_figure(draw(answers[0].title, answers[0].forecast), picture)
    if unusable:
        leave(EXIT_UNUSABLE)
    if not stable:
        leave(EXIT_NO)


def _answer(line: Line, asked: _Asked) -> _Answer:
    if line.document is None:
        raise InputError(line.problem or "is not usable")
    as_recorded = parse_recorded(line.document)
    recorded = changed(as_recorded, asked.changes)
    ahead = forecast(
        recorded, asked.model, max_rounds=asked.max_rounds, load_own=load_own_assignor, as_recorded=as_recorded
    )
    what_if = f", what if {changes_text(asked.changes)}" if asked.changes != Changes() else ""
    return _Answer(f"{recorded.id}{what_if}", recorded.id, ahead)


def _print(answer: _Answer, model: ForecastModel, format: Format, *, first: bool) -> None:
    if format is Format.JSON:
        print(as_line({"id": answer.id, "forecast": forecast_document(answer.forecast, model)}))
    else:
        print(f"{'' if first else chr(10)}{forecast_text(answer.title, answer.forecast)}")
