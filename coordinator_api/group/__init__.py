"""The group protocol as a pure state machine. It knows no clock, no store, no HTTP and no threads.

The whole loop, for one group. The caller runs `handle` and `apply` without an await between them:

    outcome = group.handle(event, now_ms)      # decides; changes nothing that has to survive a crash
    group.apply(outcome.records, now_ms)       # the only way in which the state changes, in memory for now
    store.commit(group_id, outcome.records)    # one transaction, together with the recorded rebalance
    answer(outcome.response)                   # answered means durable
    run(outcome.rebalance)                     # compute it, then send AssignmentComputed
    tick_at(group.next_timer_ms)               # send a Tick then; the time after a later event replaces this one

When the commit fails, the caller replays the group from the store, and sends `Recovered`.

Heartbeats and fetches need no turn and no commit. While others wait for the store, they are answered from the last
committed state:

    immediate = group.respond(event, now_ms, committed_image)
    answer(immediate.response); if immediate.wants_tick, a Tick has to follow

and after a restart:

    group = Group.replay(group_id, limits, records, now_ms)
    outcome = group.handle(Recovered(), now_ms)  # asks again for a rebalance that was being computed

`apply` adopts the image and the sessions that `handle` worked out. They lack a heartbeat that arrives between the two:
then `apply` works them out again, from the records and the sessions as they are.

A group goes from Empty to PreparingRebalance (members join), CompletingRebalance (the assignment is computed) and
Stable (members fetch it). Each further rebalance starts at PreparingRebalance again. Where to find it:

    values   states          the words of the protocol
             image           the durable state: the group, its members, and its last rebalance
             group_levers    what operators have set beside Kafka's behaviour
             liveness        sessions, connections and timers, in memory only; limits, as the settings set them
             events          requests of members and operators, results of rebalances, time
             records         what each record makes of the state, of sessions and timers, and its wording in errors
             record_codec    records as JSON, under names that never change
             outcome         what comes of an event: records, answer, rebalance; and one event being handled
    loop     group           `Group`, and which rule handles which event
             snapshot        the state as the shortest list of records, also after a loss or damage
             invariants      what always holds
    rules    heartbeats      which member is fenced or refused, the answers to heartbeats and fetches
             joining         how members come and go; the rejoin grace; where sessions expire
             rebalancing     where every rebalance starts, waits for joins, is computed and stored
             holding         computed rebalances that wait for approval
             administration  declare, drain, delete, set a lever; in what definitions differ
             reporting       groups that another leader leads
             rebalance_result  the outcome of a computed rebalance; when a group is settled
             subscriptions   what the rules read in a member's bytes
    views    description     a group as operators see it

Source: Kafka's classic group coordinator (`GroupMetadataManager`); each file names the part that it follows. The way of
working is that of etcd's raft.
"""
