"""The names of instances, as people read them."""

from assignor.names.short_names import client_id_of, instance_names, names_of_ended, names_of_threads

A, B = "0360fe55-ce24-4f2e-9a84-4e0a1e6a0b11", "597d2162-7b52-4a52-a3b5-6a01a3a7a0c2"
BESIDE_A = "0360fe55-0000-0000-0000-000000000000"


def test_should_call_an_instance_by_its_client_id_however_long_that_is() -> None:
    name = "orders-enrichment-of-the-web-shop-1"

    assert names_of_threads([(A, f"{name}-StreamThread-1"), (A, f"{name}-StreamThread-2"), (B, "words-p0-t1")]) == {
        A: name,
        B: "words-p0",
    }


def test_should_put_the_process_id_behind_a_client_id_that_several_instances_have() -> None:
    assert instance_names({A: "orders", B: "orders"}) == {A: "orders (0360fe55)", B: "orders (597d2162)"}
    assert instance_names({A: "orders", BESIDE_A: "orders"}) == {A: f"orders ({A})", BESIDE_A: f"orders ({BESIDE_A})"}


def test_should_call_an_instance_by_its_process_id_if_its_client_id_says_no_more() -> None:
    assert instance_names({A: f"orders-{A}", B: None}) == {A: "0360fe55", B: "597d2162"}
    assert names_of_threads([(A, "one"), (A, "two"), ("no-uuid", None)]) == {A: "0360fe55", "no-uuid": "no-uuid"}


def test_should_tell_an_instance_that_ended_from_the_one_in_its_place() -> None:
    assert names_of_ended([(A, "orders"), (B, None)]) == {A: "orders (0360fe55, ended)", B: "597d2162 (ended)"}


def test_should_take_a_client_id_from_a_member_id_of_kafka_streams_alone() -> None:
    assert client_id_of(f"orders-StreamThread-1-consumer-{A}", None) == "orders-StreamThread-1-consumer"
    assert client_id_of(f"member-{A}", None) == ""
    assert client_id_of(f"member-{A}", "orders-1") == "orders-1"
