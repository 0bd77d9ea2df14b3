"""The group protocol as a pure state machine. The state machine uses no clock, no store, no HTTP and no threads.

The caller runs this loop for each group. The caller runs `handle` and `apply` without an await between them:

    outcome = group.handle(event, now_ms)      # decides; does not change the durable state
    group.apply(outcome.records, now_ms)       # the only call that changes the state, in memory for now
    store.commit(group_id, outcome.records)    # one transaction, together with the recorded rebalance
    answer(outcome.response)                   # after the commit: an answered change is durable
    run(outcome.rebalance)                     # compute it, then send AssignmentComputed
    tick_at(group.next_timer_ms)               # send a Tick at this time; each later event replaces the time

If the commit fails, the caller replays the group from the store, and sends `Recovered`.

Heartbeats and fetches need no commit. While other events wait for the store, heartbeats and fetches are answered
immediately from the last committed state:

    immediate = group.respond(event, now_ms, committed_image)
    answer(immediate.response)                 # if immediate.wants_tick, send a Tick

After a restart, the caller rebuilds the group:

    group = Group.replay(group_id, limits, records, now_ms)
    outcome = group.handle(Recovered(), now_ms)  # returns a rebalance that was being computed, to compute it again

`apply` adopts the image and the sessions that `handle` computed. If a heartbeat arrives between `handle` and `apply`,
these sessions do not contain the heartbeat. `apply` then computes the sessions again, from the records and the group's
present sessions.

A new group is Empty. In PreparingRebalance, members join. In CompletingRebalance, the caller computes the assignment.
In Stable, members fetch their assignments. Each further rebalance starts at PreparingRebalance again.

Modules with values:
- `states`: the states, reasons, outcomes and error codes of the protocol.
- `image`: the durable state, which is the group, its members and its last rebalance.
- `group_levers`: the settings of operators that Kafka does not have.
- `liveness`: the sessions, connections and timers, which exist only in memory. `liveness` also contains the limits from
  the settings.
- `events`: the requests of members and operators, the results of rebalances, and timer events.
- `records`: the effect of each record on the state, the sessions and the timers.
- `record_codec`: the records as JSON, under names that never change.
- `outcome`: the records, the answer and the rebalance that follow from an event.

Modules with the loop:
- `group`: the class `Group`, and the rule for each event.
- `snapshot`: the state as the shortest list of records, and the restore and repair of a group's log of records.
- `invariants`: checks of the state.

Modules with rules:
- `heartbeats`: fenced and refused members, and the answers to heartbeats and fetches.
- `joining`: joins, leaves, expired sessions, and the rejoin grace.
- `rebalancing`: the wait for joins, the computation and the result of each rebalance.
- `holding`: computed rebalances that wait for approval.
- `administration`: the commands to declare, drain and delete a group and to set a lever.
- `reporting`: groups whose leader is outside this service.
- `rebalance_result`: the outcome of a computed rebalance.
- `subscriptions`: the fields of a member's subscription and assignment that the rules use.
- `description`: the description of a group for operators.

Source: Kafka's classic group coordinator (`GroupMetadataManager`); each file names the part that it follows. The loop
follows the interface of etcd's raft.
"""
