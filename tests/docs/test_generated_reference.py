"""The reference has everything that the code has, with the code's own defaults."""

import re
from importlib import import_module

import pytest
from sphinx.errors import ExtensionError

from assignor.configs import KNOWN_KEYS, AssignmentConfigs
from coordinator_api.metrics import METRICS as SERVICE_METRICS
from coordinator_api.settings import setting_rows
from docs._ext.command_pages import command_reference, commands
from docs._ext.config_descriptions import PLACEMENT, RUNTIME
from docs._ext.config_tables import coordinator_settings, placement_configs, runtime_configs
from docs._ext.generated_pages import PARTS, filled_in
from docs._ext.http_calls import calls, coordinator_calls, openapi_document
from docs._ext.kafka_counterpart_tables import INSTEAD, LACKS
from docs._ext.kafka_counterparts import PUBLIC_NAMES, counterparts, kafka_names, missing_names
from docs._ext.markdown import code, table
from docs._ext.metric_tables import instance_metrics, service_metrics
from docs._ext.public_names import SECTIONS, public_names
from docs._ext.type_names import exists, readable
from streams_runtime.common.metrics import METRICS as INSTANCE_METRICS
from streams_runtime.configs import FIELD_OF, KAFKA_PROPERTIES, ProcessingGuarantee, StreamsConfig
from tests.docs.pages import pages, read


def rows(markdown: str) -> dict[str, list[str]]:
    """Cells of each row of a table, by the first one without its backquotes."""
    found = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in markdown.splitlines()[2:]]
    return {cells[0].strip("`"): cells for cells in found}


def test_should_describe_every_config_of_an_instance_and_no_other() -> None:
    assert RUNTIME.keys() == FIELD_OF.keys()
    assert rows(runtime_configs()).keys() == RUNTIME.keys()


def test_should_describe_every_config_of_the_group_and_no_other() -> None:
    assert PLACEMENT.keys() == set(KNOWN_KEYS)
    assert rows(placement_configs()).keys() == PLACEMENT.keys()


def test_should_show_the_default_and_the_bounds_that_the_code_has() -> None:
    table_of_runtime, table_of_placement = rows(runtime_configs()), rows(placement_configs())

    assert table_of_runtime["application.id"][1] == "must be given"
    assert table_of_runtime["session.timeout.ms"][1:] == [
        "`45000`",
        "How long a member that is silent stays in the group. *Values: from 1.*",
    ]
    assert table_of_runtime["processing.guarantee"][1] == "`at_least_once`"
    assert table_of_runtime["processing.guarantee"][2].endswith("*Values: at_least_once, exactly_once_v2.*")
    assert table_of_runtime["leave.on.disconnect"][1] == "`true`"
    assert table_of_placement["probing.rebalance.interval.ms"][1] == "`600000`"
    assert table_of_placement["probing.rebalance.interval.ms"][2].endswith("*Values: from 60000.*")
    assert table_of_placement["rack.aware.assignment.tags"][1] == "none"


def test_should_name_defaults_that_depend_on_another_config_as_the_code_computes_them() -> None:
    of_each = [
        StreamsConfig("a", "memory:a", processing_guarantee=each)
        for each in (ProcessingGuarantee.AT_LEAST_ONCE, ProcessingGuarantee.EXACTLY_ONCE_V2)
    ]
    usual, exactly_once = (each.effective_commit_interval_ms for each in of_each)

    assert f"Without it: {usual}, or {exactly_once} under exactly-once" in RUNTIME["commit.interval.ms"]


@pytest.mark.parametrize("key", sorted(PLACEMENT))
def test_should_name_placement_defaults_that_the_group_really_gets(key: str) -> None:
    """A default that is written as a value is accepted as one, and changes nothing."""
    shown = rows(placement_configs())[key][1]
    given = {} if shown == "none" else {key: shown.strip("`")}

    assert AssignmentConfigs.from_dotted(given) == AssignmentConfigs()


def test_should_name_every_property_of_the_clients_on_a_page_of_kafka() -> None:
    text = read("docs/kafka/client-settings.md") + read("docs/kafka/log.md")
    refused = {"ssl.truststore.password", "ssl.keystore.password"}

    assert [key for key in sorted(KAFKA_PROPERTIES - refused) if f"`{key}`" not in text] == []


def test_should_have_every_setting_and_metric() -> None:
    settings, metrics = coordinator_settings(), service_metrics() + instance_metrics()

    flags = {row.name: "no flag" if row.flag is None else f"`{row.flag}`" for row in setting_rows()}
    assert [name for name, flag in flags.items() if f"`{name}`<br>{flag}<br>" not in settings] == []
    assert [each.name for each in (*SERVICE_METRICS, *INSTANCE_METRICS) if f"| `{each.name}` |" not in metrics] == []


def test_should_have_every_command_with_every_option() -> None:
    section = re.compile(r"^## assignor ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    sections = dict(section.findall(command_reference()))

    assert sections.keys() == commands().keys()
    assert len(sections) > 15
    for words, command in commands().items():
        options = [opt for each in command.params for opt in each.opts if opt.startswith("--") and not each.hidden]
        assert [opt for opt in options if opt not in sections[words]] == [], words


def test_should_have_a_default_apart_from_the_text() -> None:
    section = command_reference().partition("## assignor workers run\n")[2].partition("\n## ")[0]

    assert re.search(r"^\| `--instances [^`]*` \| `1` \| [^\[]*$", section, re.MULTILINE)


def test_should_have_a_default_that_the_text_tells_in_its_column() -> None:
    sections = command_reference()

    assert [line for line in sections.splitlines() if re.search(r"[.;] [Dd]efault: ", line)] == []
    assert "| `--key-separator TEXT` | a tab | Separator of the printed fields. |" in sections
    assert re.search(r"^\| `--bootstrap-server [^`]*` \| `\$ASSIGNOR_BOOTSTRAP_SERVER` \|", sections, re.MULTILINE)


def test_should_say_bounds_and_kinds_in_words() -> None:
    sections = command_reference()

    assert re.search(r"^\| `--limit INT` \| `20` \| .* \*Values: 1 to 1000\.\*", sections, re.MULTILINE)
    assert re.findall(r"x[<>]=|<(?:int|str|path|list)\b", sections) == []


def test_should_name_the_errors_of_a_call_once() -> None:
    first, *sections = coordinator_calls().split("\n## ")

    assert first.startswith("## Errors\n")
    assert "| `503` | every call | `COORDINATOR_LOAD_IN_PROGRESS`," in first
    assert [each for each in sections if "| `503` |" in each] == []
    assert "beside those of every call: `404`, `409`, `415`." in next(e for e in sections if e.startswith("PUT /v1"))


def test_should_have_every_call_of_the_coordinator() -> None:
    found = coordinator_calls()
    named = [f"## {method} {path}" for method, path, _ in calls(openapi_document())]

    assert len(named) > 15
    assert [each for each in named if f"{each}\n" not in found] == []


@pytest.mark.parametrize("package", ["assignor", "assignor.assignment", "streams_runtime", "spark_jobs.workers"])
def test_should_have_every_public_name(package: str) -> None:
    module = import_module(package)
    named = re.findall(rf"^\.\. (?:auto\w+|py:data):: {package}\.(\w+)$", public_names(package), re.MULTILINE)

    assert sorted(named) == sorted(module.__all__)


@pytest.mark.parametrize(("headed", "wrong"), [("run", "with_defaults"), ("run with_defaults run", "run")])
def test_should_refuse_a_public_name_without_a_heading_of_its_own(
    headed: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SECTIONS, "spark_jobs.workers", {"Run instances on Spark": headed})

    with pytest.raises(ExtensionError, match=rf"without a heading of their own: {wrong}$"):
        public_names("spark_jobs.workers")


def test_should_compare_every_public_name_of_kafka() -> None:
    names = [each.kafka for each in counterparts()]
    assert {name for name in names if name in PUBLIC_NAMES} == PUBLIC_NAMES.keys()
    missing = rows(missing_names())
    assert missing["processor.api.ProcessingContext.metrics"][1] == "A processor cannot add metrics of its own."
    assert rows(kafka_names())["kstream.KStream.flatMapValues"][1] == "`KStream.flat_map_values`"
    assert not missing.keys() & rows(kafka_names()).keys()


@pytest.mark.parametrize(
    ("table", "name", "text", "error"),
    [
        (INSTEAD, "kstream.Named", "`KStream.walk`", "names KStream.walk, which does not exist"),
        (INSTEAD, "kstream.Named", "`KStream.map(nickname)`", "names KStream.map\\(nickname\\), which does not exist"),
        (LACKS, "kstream.KStream.merge", "It is missing.", "KStream.merge exists, so the entry is wrong"),
        (LACKS, "kstream.KStream.swim", "It is missing.", "that Kafka does not have: kstream.KStream.swim"),
    ],
)
def test_should_refuse_an_entry_that_is_not_true(
    monkeypatch: pytest.MonkeyPatch, table: dict[str, str], name: str, text: str, error: str
) -> None:
    monkeypatch.setitem(table, name, text)
    with pytest.raises(ExtensionError, match=error):
        list(counterparts())


def test_should_write_signatures_that_sphinx_can_read() -> None:
    assert readable("(a: int = 1, b: Mapping[str, str] = <factory>)") == "(a: int = 1, b: Mapping[str, str] = ...)"


def test_should_use_every_part_on_a_page() -> None:
    used = [name for page in pages() for name in re.findall(r"^<!-- generated: (.+) -->$", read(page), re.MULTILINE)]

    assert sorted(used) == sorted(PARTS)


def test_should_refuse_a_part_that_does_not_exist() -> None:
    with pytest.raises(ExtensionError, match="a page: nothing is generated for 'metrixs'"):
        filled_in("Text.\n\n<!-- generated: metrixs -->\n", "a page")


def test_should_leave_text_without_a_comment_as_it_is() -> None:
    assert filled_in("Text <!-- a remark -->\n", "a page") == "Text <!-- a remark -->\n"


def test_should_keep_a_cell_in_its_row() -> None:
    assert table(("a",), [("one | two\nthree",)]) == "| a |\n| --- |\n| one \\| two three |\n"
    assert code("`x`") == "`` `x` ``"


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("collections.abc.Mapping", True),
        ("~assignor.configs.pins.Pin", True),
        ("tuple[str", True),
        ("assignor.configs.pins.Pinn", False),
        ("assignor.no_module.Pin", False),
    ],
)
def test_should_know_whether_a_type_exists(name: str, there: bool) -> None:
    assert exists(name) is there
