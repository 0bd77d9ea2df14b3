"""Tables of configs and settings, with the defaults that the code has."""

from dataclasses import MISSING

from assignor.configs import INTEGER_BOUNDS, RACK_AWARE_STRATEGIES, AssignmentConfigs
from assignor.types import JAVA_INT_MAX, JAVA_INT_MIN, JAVA_LONG_MIN
from coordinator_api.settings import setting_rows
from docs._ext.config_descriptions import PLACEMENT, PREFIXES, RUNTIME
from docs._ext.markdown import code, table
from streams_runtime.configs import FIELD_OF

_HEADER = ("key", "default", "what it does")
_FIELDS_WITH_A_LONGER_KEY = {  # AssignmentConfigs shortens these names
    "rack.aware.assignment.traffic_cost": "rack_aware_traffic_cost",
    "rack.aware.assignment.non_overlap_cost": "rack_aware_non_overlap_cost",
    "windowstore.changelog.additional.retention.ms": "window_store_additional_retention_ms",
}


def runtime_configs() -> str:
    """Keys of `StreamsConfig`, in the order of its fields."""
    rows = []
    for key, each in FIELD_OF.items():
        rows.append((code(key), _default(each.default), _with_values(RUNTIME[key], each.metadata["accepted"])))
    return table(_HEADER, rows)


def placement_configs() -> str:
    """Keys of `AssignmentConfigs`, which belong to the group."""
    defaults = AssignmentConfigs()
    rows = []
    for key, description in PLACEMENT.items():
        name = _FIELDS_WITH_A_LONGER_KEY.get(key, key.replace(".", "_"))
        rows.append((code(key), _default(getattr(defaults, name)), _with_values(description, _placement_values(key))))
    return table(_HEADER, rows)


def config_prefixes() -> str:
    return table(("prefix", "what it does"), ((code(f"{prefix}*"), text) for prefix, text in PREFIXES.items()))


def coordinator_settings() -> str:
    """Every setting of `assignor serve`, in its three spellings."""
    rows = (
        (
            f"{code(row.name)}<br>{'no flag' if row.flag is None else code(row.flag)}<br>{code(row.environment)}",
            code(row.default),
            row.description,
        )
        for row in setting_rows()
    )
    return table(("setting, flag and environment", "default", "what it is"), rows)


def _with_values(description: str, values: str) -> str:
    return f"{description} *Values: {values}.*" if values else description


def _default(value: object) -> str:
    if value is MISSING:
        return "must be given"
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return code(str(value).lower())
    return code(str(value))


def _placement_values(key: str) -> str:
    if key in INTEGER_BOUNDS:
        low, high = INTEGER_BOUNDS[key]
        if low in (JAVA_INT_MIN, JAVA_LONG_MIN):
            return "any whole number"
        return f"from {low}" if high >= JAVA_INT_MAX else f"{low} to {high}"
    return ", ".join(RACK_AWARE_STRATEGIES) if key == "rack.aware.assignment.strategy" else ""
