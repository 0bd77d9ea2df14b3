"""Java's heap, compared with what `java.util.PriorityQueue` of Java 17 answered while weights changed inside it."""

from typing import Any

import pytest

from assignor.java.priority_queue import JavaPriorityQueue
from tests.recorded import documents

# no queue of Kafka's is made of a whole collection, which is put in order from the bottom up
QUEUES = [line for line in documents("java_collections.jsonl.gz") if "weights" in line and "heapified" not in line]


@pytest.mark.parametrize("line", QUEUES, ids=lambda line: line["id"])
def test_should_answer_as_java_while_weights_change(line: dict[str, Any]) -> None:
    weights: list[int] = line["weights"]
    queue = JavaPriorityQueue(weights.__getitem__)
    answers: list[object] = []
    for step, *values in line["steps"]:
        match step:
            case "offer":
                queue.offer(*values)
            case "poll":
                answers.append(queue.poll())
            case "remove":
                answers.append(queue.remove(*values))
            case "weigh":
                weights[values[0]] = values[1]
            case "walk":
                answers.append(list(queue))
    assert answers == line["answers"]
