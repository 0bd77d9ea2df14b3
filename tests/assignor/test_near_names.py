"""Which known name a wrong one is taken for, and when none is near enough to be named."""

import pytest

from assignor.names.near_names import did_you_mean, near_name

SETTINGS = ("port", "host", "log.level", "num.standby.replicas", "sasl.oauthbearer.jwks.endpoint.url", "ssl.certfile")


@pytest.mark.parametrize(
    "wrong, near",
    [
        ("prot", "port"),
        ("--prot", "port"),
        ("PORT", "port"),
        ("loglevel", "log.level"),
        ("LOG_LEVEL", "log.level"),
        ("num.standby.replica", "num.standby.replicas"),
        ("standbys", "num.standby.replicas"),
        ("server.prot", None),
        ("bind", None),
        ("", None),
        ("zzz", None),
    ],
)
def test_should_name_only_what_is_near(wrong: str, near: str | None) -> None:
    assert near_name(wrong, SETTINGS) == near


def test_should_not_take_one_topic_for_another_that_ends_alike() -> None:
    assert near_name("orders.v2", ["payments.v2", "accounts.v2"]) is None
    assert near_name("order.v2", ["payments.v2", "orders.v2"]) == "orders.v2"


def test_should_end_an_error_with_the_name_or_with_nothing() -> None:
    assert did_you_mean("prot", SETTINGS) == "; did you mean 'port'?"
    assert did_you_mean("zzz", SETTINGS) == did_you_mean("zzz", ()) == ""
