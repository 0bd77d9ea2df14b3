"""`assignor tokens`: a token on stdout alone, at a running coordinator and in a file."""

import json
import stat
from pathlib import Path

from coordinator_client.access.tokens import digest_of
from tests.coordinator_api.service_process import ServiceProcess, run_command


def test_should_create_list_and_revoke_at_a_running_coordinator(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service:
        at: tuple[str, ...] = ("--coordinator", service.url)
        first = run_command(tmp_path, "tokens", "create", "ops", "--right", "admin", *at)
        assert first.returncode == 0, first.stderr
        token = first.stdout.removesuffix("\n")
        assert token.startswith("asg_")
        assert token not in first.stderr
        assert first.stderr.splitlines()[-1] == "from now on every call of this service needs a token"
        refused = run_command(tmp_path, "tokens", "list", *at)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "--token-file" in refused.stderr

        (tmp_path / "ops.token").write_text(first.stdout)
        at = (*at, "--token-file", "ops.token")
        more = ("pay", "--right", "member", "--groups", "payments-*", "--expires", "P90D")
        assert run_command(tmp_path, "tokens", "create", *more, *at).returncode == 0
        listed = run_command(tmp_path, "tokens", "list", "-o", "json", *at)
        shown = {each["name"]: (each["right"], each["groups"]) for each in json.loads(listed.stdout)["tokens"]}
        assert shown == {"ops": ("admin", "*"), "pay": ("member", "payments-*")}
        table = run_command(tmp_path, "tokens", "list", *at).stdout.splitlines()
        assert table[0].split() == ["NAME", "RIGHT", "GROUPS", "SOURCE", "EXPIRES", "AGE"]
        assert run_command(tmp_path, "tokens", "revoke", "pay", *at).stdout == "pay: revoked\n"
        again = run_command(tmp_path, "tokens", "revoke", "pay", *at)
        assert (again.returncode, again.stderr.startswith("error: RESOURCE_NOT_FOUND")) == (1, True)


def test_should_keep_hashes_in_a_file_that_its_owner_alone_may_read(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    in_file = ("--file", "tokens")
    first = run_command(tmp_path, "tokens", "create", "ops", "--right", "admin", *in_file)
    assert first.returncode == 0, first.stderr
    file.write_text(f"# who may call\n{file.read_text()}")
    second = run_command(tmp_path, "tokens", "create", "pay", "--right", "member", "--groups", "payments-*", *in_file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    tokens = [each.stdout.strip() for each in (first, second)]
    assert text.startswith("# who may call\n")
    assert [digest_of(token.encode()) in text for token in tokens] == [True, True]
    assert [token in text for token in tokens] == [False, False]

    with ServiceProcess(tmp_path, "--auth-tokens-file", "tokens") as service:
        for token, status in zip(tokens, (200, 403), strict=True):
            with service.client(token) as client:
                assert client.get("/v1/tokens").status_code == status

    twice = run_command(tmp_path, "tokens", "create", "ops", "--right", "reader", *in_file)
    assert (twice.returncode, twice.stdout) == (2, "")
    assert run_command(tmp_path, "tokens", "list", *in_file).stdout.count("\n") == 3
    assert run_command(tmp_path, "tokens", "revoke", "nobody", *in_file).returncode == 2
    assert run_command(tmp_path, "tokens", "revoke", "pay", *in_file).returncode == 0
    last = run_command(tmp_path, "tokens", "revoke", "ops", *in_file)
    assert (last.returncode, "its last token" in last.stderr) == (2, True)
    assert file.read_text().startswith("# who may call\nops ")
