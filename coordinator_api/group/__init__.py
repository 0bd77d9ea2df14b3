"""The group protocol as a pure state machine. The state machine uses no clock, no store, no HTTP and no threads.

The caller runs this loop for each group. The caller runs `handle` and `apply` without an await between them:

    outcome = group.handle(event, now_ms)      # decides; does not change the durable state
    group.apply(outcome.records, now_ms)       # the only call that changes the state, in memory for now
    store.commit(group_id, outcome.records)    # one transaction, together with the recorded rebalance
    answer(outcome.response)                   # after the commit: an answered change is durable
    run(outcome.rebalance)                     # compute it, then send AssignmentComputed
    tick_at(group.next_timer_ms)               # send a Tick at this time; each later event replaces the time

If the commit fails, the caller replays the group from the store, and sends `Recovered`.

Heartbeats and fetches need no commit. While other events wait for the store, heartbeats and fetches are answered at
once from the last committed state:

    immediate = group.respond(event, now_ms, committed_image)
    answer(immediate.response)                 # if immediate.wants_tick, send a Tick

After a restart:

    group = Group.replay(group_id, limits, records, now_ms)
    outcome = group.handle(Recovered(), now_ms)  # returns a rebalance that was being computed, to compute it again

`apply` adopts the image and the sessions that `handle` computed. If a heartbeat arrives between `handle` and `apply`,
these sessions lack the heartbeat, so `apply` computes the sessions again, from the records and the present sessions.

A group goes from Empty to PreparingRebalance (members join), CompletingRebalance (the assignment is computed) and
Stable (members fetch it). Each further rebalance starts at PreparingRebalance again. The modules:

    values   states          the states, reasons, outcomes and error codes of the protocol
             image           the durable state: the group, its members, and its last rebalance
             group_levers    the settings of operators that Kafka does not have
             liveness        sessions, connections and timers, in memory only; limits from the settings
             events          requests of members and operators, results of rebalances, timer events
             records         the effect of each record on the state, the sessions and the timers; its text in errors
             record_codec    records as JSON, under names that never change
             outcome         the outcome of an event: records, answer, rebalance; `GroupTransition` handles one event
    loop     group           `Group`, and the rule for each event
             snapshot        the state as the shortest list of records; restores and repairs of logs
             invariants      checks of the state
    rules    heartbeats      fenced and refused members; the answers to heartbeats and fetches
             joining         joins, leaves, expired sessions, and the rejoin grace
             rebalancing     each rebalance from its start: the wait for joins, the computation, the result
             holding         computed rebalances that wait for approval
             administration  commands: declare, drain, delete, set a lever; compares two definitions
             reporting       groups whose leader is outside this service
             rebalance_result  the outcome of a computed rebalance; whether the group is settled
             subscriptions   the fields that the rules read from a member's subscription and assignment
    views    description     the description of a group for operators

Source: Kafka's classic group coordinator (`GroupMetadataManager`); each file names the part that it follows. The loop
follows the interface of etcd's raft.
"""
