"""What commands print of names that others have chosen does nothing to the terminal, and forges no row."""

import json

import pytest
import yaml

from assignor_cli.console import print_message
from assignor_cli.output import Format, show
from assignor_cli.tables import Column, View, fitted, paragraph, table_text
from tests.hostile_names import HOSTILE_NAMES

FORGED = "a\nb  Stable\x1b[2J\x9b31m\u202e[red]x[/red]\r"


def is_harmless(text: str) -> bool:
    return text.replace("\n", "").isprintable()


@pytest.mark.parametrize("format", Format)
def test_should_print_nothing_that_a_terminal_obeys(format: Format, capsys: pytest.CaptureFixture[str]) -> None:
    show({FORGED: [FORGED]}, f"{FORGED}\n", format)

    printed = capsys.readouterr().out
    assert is_harmless(printed)
    assert "[red]x[/red]" in printed


def test_should_print_data_with_the_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"names": [*HOSTILE_NAMES, FORGED]}

    show(document, "", Format.JSON)
    assert json.loads(capsys.readouterr().out) == document
    show(document, "", Format.YAML)
    assert yaml.safe_load(capsys.readouterr().out) == document


def test_should_give_each_row_of_a_table_one_line() -> None:
    text = table_text("", (Column("NAME"), Column("STATE")), [(FORGED, "Empty"), ("c", "Empty")], View())

    assert len(text.splitlines()) == 3
    assert is_harmless(text)


def test_should_show_paragraphs_and_messages_harmlessly(capsys: pytest.CaptureFixture[str]) -> None:
    print_message(f"error: {FORGED}")

    assert is_harmless(capsys.readouterr().err)
    assert is_harmless(fitted(FORGED, View()))
    assert is_harmless(paragraph("name:", FORGED, View(wide=True), indent=10))
