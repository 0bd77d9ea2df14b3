"""Settings: flags over environment over the file over defaults, the broker's names, and errors that help."""

import re
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX
from coordinator_api.http.settings_sources import load, unknown_environment
from coordinator_api.settings import REMOVED, Settings, SettingsError, dotted, environment_name, flag, setting_rows
from tests.coordinator_api.service_process import run_command

ENVIRONMENT_NAME = "ASSIGNOR_GROUP_INITIAL_REBALANCE_DELAY_MS"


@pytest.fixture(autouse=True)
def no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in setting_rows():
        monkeypatch.delenv(row.environment, raising=False)


def written(directory: Path, text: str) -> Path:
    path = directory / "coordinator.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_should_have_the_brokers_defaults_but_for_the_session_timeout() -> None:
    settings = load({})

    assert settings.group_initial_rebalance_delay_ms == 3_000
    assert settings.group_max_session_timeout_ms == 1_800_000
    assert settings.group_min_session_timeout_ms == 500
    assert (settings.host, settings.database_url) == ("127.0.0.1", "sqlite:///assignor.sqlite3")


def test_should_prefer_flags_environment_file_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "group.initial.rebalance.delay.ms = 1")
    seen = [load({}).group_initial_rebalance_delay_ms, load({}, file).group_initial_rebalance_delay_ms]
    monkeypatch.setenv(ENVIRONMENT_NAME, "2")
    seen.append(load({}, file).group_initial_rebalance_delay_ms)
    seen.append(load({"group_initial_rebalance_delay_ms": "3"}, file).group_initial_rebalance_delay_ms)

    assert seen == [3_000, 1, 2, 3]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_should_take_each_setting_from_the_environment_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    field = Settings.model_fields[name]
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    other: object
    if choices:
        other = next(each for each in choices if each != field.default)
    elif field.annotation is int:
        other = field.default - 1 if field.default in (JAVA_INT_MAX, JAVA_LONG_MAX) else field.default + 1
    elif name == "root_path":
        other = "/assignor"
    elif name == "forwarded_allow_ips":
        other = ("10.1.0.0/16", "::1")
    elif field.annotation == tuple[str, ...]:
        other = ("embedded:/one", "embedded:/two")
    else:
        other = Path("/elsewhere") if field.annotation == Path | None else "http://elsewhere:1"
    monkeypatch.setenv(
        f"ASSIGNOR_{name.upper()}", ",".join(map(str, other)) if isinstance(other, tuple) else str(other)
    )

    changed = {each for each, value in load({}) if value != Settings.model_fields[each].default}

    assert getattr(load({}), name) == other
    assert changed == {name}


def test_should_take_an_empty_variable_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_NAME, "")

    assert load({}).group_initial_rebalance_delay_ms == 3_000


@pytest.mark.parametrize(
    "text",
    [
        "group.max.size = 7",
        '"group.max.size" = 7',
        "[group]\nmax.size = 7",
        "[group.max]\nsize = 7",
    ],
)
def test_should_read_a_dotted_name_however_toml_writes_it(tmp_path: Path, text: str) -> None:
    assert load({}, written(tmp_path, text)).group_max_size == 7


@pytest.mark.parametrize(
    "text, message",
    [
        ("group.max.sizes = 7", "unknown setting 'group.max.sizes'; did you mean 'group.max.size'?"),
        ("group_max_size = 7", "unknown setting 'group_max_size'; did you mean 'group.max.size'?"),
        ("[groop]\nmax.size = 7", "unknown setting 'groop.max.size'; did you mean 'group.max.size'?"),
        ("group.max.size = ", "not TOML"),
    ],
)
def test_should_name_the_nearest_setting_for_an_unknown_one(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=r"coordinator\.toml") as error:
        load({}, written(tmp_path, text))

    assert message in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        'auth.token = ["s3cret"]',
        'auth.token = "s3cret',
        'auth.token = { is = "s3cret" }',
        'auth.token = "s3cret"\nauth.token.file = "also"',
        "auth.token = 53217",
        'auth.tokens = ["s3cret"]',
        'database.url = ["postgresql://ann:s3cret@host/groups"]',
    ],
)
def test_should_not_show_a_secret_of_a_file_that_is_wrong(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as error:
        load({}, written(tmp_path, text))

    assert not re.search("s3cret|53217", str(error.value))
    assert "s3cret" not in repr(Settings(auth_token="s3cret", auth_tokens="s3cret"))


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"port": "65536"}, "port: Input should be less than or equal to 65535, not '65536'"),
        ({"group_max_size": "many"}, "group.max.size: Input should be a valid integer"),
        ({"group_max_size": "0"}, "group.max.size: Input should be greater than or equal to 1, not '0'"),
        ({"lease_timeout_ms": "599"}, "lease.timeout.ms: Input should be greater than or equal to 600"),
        ({"advertised_url": "http://a:1/v1"}, "advertised.url: must be http://host:port or https://host:port, with"),
        ({"advertised_url": "a:8080"}, "advertised.url: must be http://host:port or https://host:port, with"),
        ({"log_level": "loud"}, "log.level: Input should be 'debug', 'info', 'warning' or 'error', not 'loud'"),
        ({"group_min_session_timeout_ms": 9, "group_max_session_timeout_ms": 8}, "must not be above"),
        ({"auth_token": "s3cret"}, "auth.token is a secret, and everybody on this machine can read a command line"),
        ({"database_url": "postgresql://me:s3cret@h/n"}, "database.url has a password, and everybody on this machine"),
        ({"database_url": "postgresql://h/n?password=s3cret"}, "PGPASSWORD or ~/.pgpass"),
    ],
)
def test_should_say_which_value_is_wrong(flags: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError) as error:
        load(flags)

    assert message in str(error.value)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("value", ["-1000000000000000000000", "1000000000000000000000"])
def test_should_refuse_a_number_that_nothing_can_count_to(value: str) -> None:
    numbers = [name for name, field in Settings.model_fields.items() if field.annotation is int]

    assert len(numbers) > 25
    for name in numbers:
        with pytest.raises(SettingsError, match=re.escape(name.replace("_", "."))):
            load({name: value})


def test_should_split_allowed_assignors_at_commas() -> None:
    assert load({"task_assignor_classes": "a:B, c.d:E,"}).task_assignor_classes == ("a:B", "c.d:E")


@pytest.mark.parametrize(
    ("text", "clusters"),
    [
        ("a:9092", ("a:9092",)),
        ("a:9092, b:9092,[::1]:9092", ("a:9092,b:9092,[::1]:9092",)),
        ("kafka:a:9092,b:9092,kafka:c:9092,d:9092", ("kafka:a:9092,b:9092", "kafka:c:9092,d:9092")),
        ("kafka:9092,b:9092", ("kafka:9092,b:9092",)),
        ("a:9092;b:9092,c:9092", ("a:9092;b:9092", "c:9092")),
        ("embedded:/one,embedded:/two", ("embedded:/one", "embedded:/two")),
        ("embedded:/one,a:9092,b:9092", ("embedded:/one", "a:9092,b:9092")),
        ("a:9092,b:9092,embedded:/one,", ("a:9092,b:9092", "embedded:/one")),
        ("", ()),
    ],
)
def test_should_read_lists_of_brokers(text: str, clusters: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSIGNOR_CLUSTER_BOOTSTRAP_SERVERS", text)

    assert load({"cluster_bootstrap_servers": text}).cluster_bootstrap_servers == clusters
    assert load({}).cluster_bootstrap_servers == clusters


def test_should_take_every_item_of_a_list_for_one_cluster(tmp_path: Path) -> None:
    file = written(tmp_path, 'cluster.bootstrap.servers = ["a:9092,b:9092", "c:9092", "embedded:/one,two"]')

    assert load({}, file).cluster_bootstrap_servers == ("a:9092,b:9092", "c:9092", "embedded:/one,two")


def test_should_warn_of_a_misspelt_variable_and_leave_others_alone() -> None:
    names = ["ASSIGNOR_GROUP_MAX_SIZ", "ASSIGNOR_COORDINATOR", "ASSIGNOR_HOST", "PATH"]

    assert unknown_environment(names) == [
        "ASSIGNOR_GROUP_MAX_SIZ is not a setting and is ignored; did you mean ASSIGNOR_GROUP_MAX_SIZE?"
    ]


def test_should_describe_every_setting_and_spell_it_three_ways() -> None:
    rows = {row.name: row for row in setting_rows()}

    assert rows.keys() == {dotted(field_name) for field_name in Settings.model_fields}
    assert all(row.description.endswith(".") for row in rows.values())
    row = rows["group.initial.rebalance.delay.ms"]
    assert (row.flag, row.environment, row.default) == ("--group-initial-rebalance-delay-ms", ENVIRONMENT_NAME, "3000")


@pytest.mark.parametrize(
    "flags, message",
    [
        (("--config", "nowhere.toml"), "error: nowhere.toml: cannot be read: No such file or directory"),
        (
            ("--task-assignor-classes", "nowhere:Nothing"),
            "task.assignor.classes: 'nowhere:Nothing': there is no module 'nowhere'",
        ),
        (
            ("--max-connections", "5"),
            "--max-connections: this setting was removed; use the process's limit of open files",
        ),
    ],
)
def test_should_say_in_one_line_why_it_does_not_start(tmp_path: Path, flags: tuple[str, ...], message: str) -> None:
    done = run_command(tmp_path, "serve", "--port", "0", *flags)

    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("user", ["ann:hidden", "hidden", "ann:hid,den", "kafka:hidden"])
def test_should_refuse_a_user_in_the_address_of_a_cluster_and_not_show_it(user: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({"cluster_bootstrap_servers": f"{user}@h:9092,i:9092"})

    assert str(refused.value) == (
        "cluster.bootstrap.servers: must be host:port, without a user or a password: everybody who sees a group sees "
        "it, not '...@h:9092,i:9092'"
    )


@pytest.mark.parametrize("name", REMOVED)
def test_should_say_what_replaces_a_removed_setting(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, f"{dotted(name)} = 1")
    instead = f"this setting was removed; use {REMOVED[name]}"

    with pytest.raises(SettingsError, match=re.escape(f"{file}: {dotted(name)}: {instead}")):
        load({}, file)
    with pytest.raises(SettingsError, match=re.escape(f"{flag(name)}: {instead}")):
        load({name: "1"})
    monkeypatch.setenv(environment_name(name), "1")
    with pytest.raises(SettingsError, match=re.escape(f"{environment_name(name)}: {instead}")):
        load({})
