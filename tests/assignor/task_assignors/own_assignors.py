"""Assignors as a user might write them, right and wrong ones; test_registry.py names them as module:Class."""

from assignor.task_assignors.base import ClientPlacement, Placement, PlacementProblem
from assignor.task_assignors.decisions import DecisionLog


class EverythingOnTheFirst:
    name = "EverythingOnTheFirst"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        first = min(problem.clients)
        nothing: ClientPlacement = ClientPlacement(frozenset(), frozenset())
        return Placement(
            False,
            {
                process: ClientPlacement(frozenset(problem.tasks), frozenset()) if process == first else nothing
                for process in problem.clients
            },
        )


class NeedsAnArgument(EverythingOnTheFirst):
    def __init__(self, argument: int) -> None:
        self.argument = argument


class HasNoName:
    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        raise AssertionError("refused before it is asked")


class HasNoAssign:
    name = "HasNoAssign"


def not_a_class() -> None:
    """Only here to be named by mistake."""
