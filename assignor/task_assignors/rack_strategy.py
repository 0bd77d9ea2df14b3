"""Rack-aware strategies (KIP-925) are refused until they are built, by every assignor that would have to follow one."""

from __future__ import annotations

from assignor.configs import RACK_AWARE_ASSIGNMENT_STRATEGY, AssignmentConfigs
from assignor.errors import NotBuiltYet


def refuse_rack_strategy(configs: AssignmentConfigs) -> None:
    """Raises NotBuiltYet."""
    if configs.rack_aware:
        raise NotBuiltYet(
            f"the strategy {configs.rack_aware_assignment_strategy!r} is not built yet, only 'none' is",
            RACK_AWARE_ASSIGNMENT_STRATEGY,
        )
