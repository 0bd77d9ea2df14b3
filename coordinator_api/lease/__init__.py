"""The lease decides which coordinator leads a group. The lease also limits the time for which a coordinator may answer
for its groups.

Each coordinator has a row in the database, and renews the row periodically. These rules apply to the rows:

- A poll adds 1 to `renewals` in this coordinator's row, and reads a `LeaseView` of all rows in the same transaction.
  After late answers, polls read the rows but do not renew this coordinator's row.
- After a renewal, this coordinator may answer for `valid_ms` from the moment at which it SENT the poll.
- A lease has expired if its row has been unchanged for a little longer than `valid_ms`. Another coordinator deletes the
  row of an expired lease if `renewals` in this row still has the observed value.
- A group is free if its owner has no row in the database. All coordinators compute the same plan, which names one
  coordinator for the group. The named coordinator takes the group with a new epoch.

The loop of `CoordinatorLease`:

1. Insert a row under a new id, and call `holder.entered`.
2. At `holder.next_poll_ms`, note the time and send a poll. If the poll fails, call `holder.poll_failed`, and send the
   next poll.
3. Pass the result of the poll to `holder.polled`, which returns actions. Begin the actions one after the other. The
   loop sends later polls even while a group is being opened or handed over.
4. If the poll finds no row of this coordinator, `holder.coordinator_id` is None. The coordinator then begins again at
   step 1, under another id.

The actions:

- `Lose`: drop the group. The group answers no more requests, and its timers end.
- `ReadAgain`: read every group of this coordinator from the store before the group's next event. All session timeouts
  restart.
- `EndCoordinator`: call `store.end`.
- `Take`: call `store.take`. If `store.take` succeeds, call `holder.own`, load the group, and handle `Recovered`.
- `HandOver`: close the group, and call `store.hand_over`. If `store.hand_over` succeeds, call `holder.given`.

If an action fails or its answer is lost, no clean-up is needed: the next view shows the result of the action.

When an answer is computed, `whereabouts(group)` must be `Here`, and `may_answer(now)` must be True. While
`may_answer(now)` is False, no event and no timer of a group is handled. So a member is not removed if the coordinator
could not answer its heartbeat.

Rules:
- No coordinator compares its clock with the clock of another machine or of the database. A coordinator measures on its
  own clock how long the row of another coordinator has been unchanged. The observing coordinator starts to measure when
  the answer to its own poll ARRIVES. The owner of the row starts to measure earlier, when it SENDS its renewal. So the
  owner stops answering before another coordinator may take its groups.
- A database lock cannot replace the expiry. If a coordinator lost its database connection, it would lose the lock, but
  would still run and answer calls.
- Coordinators cannot renew their rows during an outage of the database. A long gap between two polls counts as only a
  few renewal intervals, so that an outage alone does not make a lease look expired.
- Each write of a group names the epoch in which the writer owns the group. The database refuses the write of a former
  owner.
- When the row of a coordinator is deleted, the coordinator loses all groups. The coordinator then inserts a new row
  under another id.
- If a coordinator does not serve calls, the field `takes` of its row is False. A coordinator that does not serve calls
  gets groups only if no other coordinator serves calls. For example, the first coordinator of a database takes and
  opens its groups before it listens.
- Only a coordinator with a row takes groups, and only the owner of a group hands it over. So while a coordinator has
  its row, its list of its own groups is correct.
- An SQLite file has one coordinator, whose lease never expires (`coordinator_api/store/opening.py`).

- `decisions` defines the actions. `decisions` also chooses the free groups to take, and a group to hand over if the
  loads differ too much.
- `lease_holder` implements the rules: the expiry of leases, and the actions after a poll.
- `owned_groups` opens groups after they were taken, and closes groups before they are handed over.
- `coordinator_lease` runs the renewal loop, and finds the owners of groups for HTTP calls.

The functions and classes of `decisions` and `lease_holder` do no I/O, and get the time as an argument. The file
`coordinator_api/store/lease_rows.py` defines the rows and the database operations.

The idea comes from the leader election in the clients of etcd and Kubernetes. The clients of etcd and Kubernetes do not
compare the clocks of machines either.
"""
