"""What the test tells the process of schemathesis, which takes as long to import as many tests to run: not here.

`schemathesis_hooks.py` is read there.
"""

HOOKS = "tests.coordinator_api.http.schemathesis_hooks"

KNOWN_VARIABLE = "KNOWN_MEMBERS"
"""JSON list of [group, member]: each has the assignment of generation 1, the first of its group, which is recorded."""

TOKEN = "a-token-for-schemathesis"
"""The service needs one: a service without any is closed by the first call that creates one."""

ANSWERS_VARIABLE = "ANSWERS_FILE"
"""Gets the JSON of the operations that succeeded, and of the calls that were made right and refused."""

OF_KNOWN_MEMBERS = frozenset(
    {
        *("describe_group", "export_log", "show_hold", "fetch_assignment", "heartbeat", "process_heartbeat"),
        *("list_rebalances", "show_rebalance", "explain_rebalance"),
    }
)
"""Calls that change nothing which another call needs. `test_rights.py` checks the answers of those that do."""
