"""What operators ask of a rebalance beside Kafka's rules: instances that are to be emptied, and tasks that are to stay.

A steered rebalance wraps the task assignor that the group is set to (`steered_assignor`). Without steering nothing is
wrapped, and a rebalance is Kafka's. Kafka has no counterpart.
"""

from assignor.steering.steered_assignor import steered_assignor as steered_assignor
from assignor.steering.steering import NO_STEERING as NO_STEERING
from assignor.steering.steering import Steering as Steering
