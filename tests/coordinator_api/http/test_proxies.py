"""What a proxy says about a call counts when the proxy is believed, and has a form in which it can do no harm."""

import pytest
from starlette.types import Scope

from coordinator_api.http.proxies import Proxies, PublicAddress, public_address, reference, way_to_root
from coordinator_api.http.settings_sources import load
from coordinator_api.settings import Settings, SettingsError

PROXY = "127.0.0.1"
LOCAL = Settings().forwarded_allow_ips


def scope_of(path: str, client: str | None = PROXY, /, **headers: str) -> Scope:
    return {
        "type": "http",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "client": None if client is None else (client, 1),
        "headers": [(f"x-forwarded-{name}".encode(), value.encode("latin-1")) for name, value in headers.items()],
    }


def noted(scope: Scope, root_path: str = "", allowed: tuple[str, ...] = LOCAL) -> PublicAddress:
    Proxies(root_path, allowed).note(scope, dict(scope["headers"]))
    return public_address(scope)


@pytest.mark.parametrize("path", ["/v1/groups", "/assignor/v1/groups"])
def test_should_take_the_prefix_off_whether_the_proxy_has_or_not(path: str) -> None:
    told, set_up = scope_of(path, prefix="/assignor/"), scope_of(path, None)

    assert noted(told) == noted(set_up, "/assignor") == PublicAddress("/assignor")
    for scope in (told, set_up):
        assert (scope["path"], scope["raw_path"]) == ("/v1/groups", b"/v1/groups")


def test_should_take_no_beginning_of_a_name_for_the_prefix() -> None:
    scope = scope_of("/assignor2/v1")
    noted(scope, "/assignor")
    assert scope["path"] == "/assignor2/v1"


def test_should_keep_the_escapes_of_the_path_behind_the_prefix() -> None:
    scope = scope_of("/a b/ui", prefix="/a")
    scope.update(path="/a/ui/groups/x/y", raw_path=b"/a/ui/groups/x%2Fy")
    noted(scope)
    assert (scope["raw_path"], way_to_root(scope)) == (b"/ui/groups/x%2Fy", "../../")


@pytest.mark.parametrize(
    ("told", "prefix"),
    [
        ("/a", "/a"),
        ("/a/b/", "/a/b"),
        ("/outer, /inner", "/outer/inner"),
        ("/", ""),
        ("", ""),
        ("a", "/default"),
        ("//attacker.example", "/default"),
        ("/a//b", "/default"),
        ("/..", "/default"),
        ("/a/../b", "/default"),
        ("/ui", "/default"),
        ("/v1/x", "/default"),
        ('/"><script>', "/default"),
        ("/a\r\nSet-Cookie: b=c", "/default"),
        ("/\u00e4", "/default"),
        ("/" + "x" * 300, "/default"),
        ("https://attacker.example/", "/default"),
    ],
)
def test_should_take_a_prefix_that_is_a_path_and_no_other(told: str, prefix: str) -> None:
    assert noted(scope_of("/ui/groups", prefix=told), "/default").prefix == prefix


def test_should_know_the_host_and_the_scheme_that_the_outermost_proxy_told() -> None:
    scope = scope_of("/", host="console.example:8443, inner", proto="HTTPS, http")
    assert noted(scope).host == "console.example:8443"
    assert scope["scheme"] == "https"
    odd = scope_of("/", proto="gopher")
    noted(odd)
    assert odd["scheme"] == "http"


@pytest.mark.parametrize(
    ("client", "allowed", "counts"),
    [
        (PROXY, LOCAL, True),
        ("::1", LOCAL, True),
        ("::ffff:127.0.0.1", LOCAL, True),
        ("192.0.2.1", LOCAL, False),
        ("192.0.2.1", ("192.0.2.0/24",), True),
        ("192.0.3.1", ("192.0.2.0/24",), False),
        (PROXY, ("192.0.2.0/24",), False),
        ("192.0.2.1", ("*",), True),
        (PROXY, (), False),
        ("nobody", LOCAL, False),
        (None, ("*",), False),
    ],
)
def test_should_believe_proxies_that_are_allowed(client: str | None, allowed: tuple[str, ...], counts: bool) -> None:
    told = noted(scope_of("/ui", client, prefix="/a", host="b", proto="https"), "", allowed)
    assert told == (PublicAddress("/a", "b") if counts else PublicAddress())


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/", "./ui/groups?q=a"),
        ("/ui", "./ui/groups?q=a"),
        ("/ui/", "../ui/groups?q=a"),
        ("/ui/groups", "../ui/groups?q=a"),
        ("/ui/groups/a/time", "../../../ui/groups?q=a"),
    ],
)
def test_should_lead_to_its_addresses_from_wherever_it_is_asked(path: str, address: str) -> None:
    assert reference(scope_of(path), "/ui/groups?q=a") == address


@pytest.mark.parametrize("path", ["/", "/assignor", "/assignor/"])
def test_should_lead_below_the_prefix_also_without_a_slash_behind_it(path: str) -> None:
    scope = scope_of(path)
    noted(scope, "/assignor")
    assert reference(scope, "/ui/groups") == "/assignor/ui/groups"


@pytest.mark.parametrize(
    "path", ["assignor", "/ui", "/ui/x", "/v1", "/a//b", "/..", "/a b", "https://x", "/a?b", "//x"]
)
def test_should_refuse_a_root_path_that_is_none(path: str) -> None:
    with pytest.raises(SettingsError, match=r"root\.path: must be a path such as /assignor"):
        load({"root_path": path})


def test_should_take_a_root_path_with_and_without_a_slash_at_its_end() -> None:
    assert [load({"root_path": path}).root_path for path in ("/a/b", "/a/b/", "/", "/uix")] == [
        "/a/b",
        "/a/b",
        "",
        "/uix",
    ]


@pytest.mark.parametrize("allowed", ["proxy.example", "127.0.0.1:80", "10.0.0.0/33", "*,x"])
def test_should_refuse_proxies_that_are_no_addresses(allowed: str) -> None:
    with pytest.raises(SettingsError, match=r"forwarded\.allow\.ips: must be addresses such as"):
        load({"forwarded_allow_ips": allowed})
