"""The lease decides which coordinator leads a group, and until when this coordinator may answer for its groups.

Each coordinator has a row in the database, and renews the row periodically. The functions get the time as an argument:

    a poll            adds 1 to `renewals` in this coordinator's row (except after late answers), and reads a
                      `LeaseView` of all rows in the same transaction
    a renewal         lets this coordinator answer until `valid_ms` after it SENT the poll
    an expired lease  is a lease whose row was observed unchanged for a little longer than `valid_ms`; another
                      coordinator deletes this row if its `renewals` is still the observed number
    a free group      is a group whose owner has no row; one coordinator takes it with a new epoch, by a plan that all
                      coordinators compute alike

The loop of `CoordinatorLease`:

    insert a row under a new id; holder.entered(id, url, now)
    at holder.next_poll_ms(now):  note the time, send the poll; if it fails, holder.poll_failed, then the next poll
    holder.polled(sent, now, view, movable) -> actions, begun one after the other; opening a group and a hand-over may
      go on while later polls are sent:
        Lose         drop the group: it answers no more requests, and its timers end
        ReadAgain    read every own group from the store before its next event; all session timeouts restart
        EndCoordinator   store.end
        Take         store.take; if it succeeds: holder.own, load the group, handle `Recovered`
        HandOver     close the group, store.hand_over; if it succeeds: holder.given
      An action that fails, or whose answer is lost, needs no clean-up: the next view shows its result.
    after a poll that finds no row of this coordinator, holder.coordinator_id is None: begin again under another id
    when an answer is computed:  whereabouts(group) must be Here, and may_answer(now) True
    no event and no timer of a group is handled while may_answer(now) is False: a member whose heartbeat
      could not be answered does not count as late

Rules:
- No coordinator compares its clock with the clock of another machine or of the database. A coordinator measures on its
  own clock how long the row of another coordinator has been unchanged. This time begins when the answer to the
  coordinator's poll ARRIVED. The owner of a row counts the validity of its lease from the earlier moment at which it
  SENT the renewal. So the owner of a row stops answering before another coordinator may take its groups.
- A lock of the database cannot replace the expiry: a lock holder whose connection broke keeps running, and would
  answer.
- During an outage of the database, coordinators cannot renew their rows, so no coordinator may treat the lease of
  another as expired. So a long gap between two polls counts as only a few renewal intervals.
- Each write of a group names the epoch in which the writer owns the group. The database refuses the write of a former
  owner.
- A coordinator whose row was deleted has lost all groups, and inserts a new row under another id.
- A coordinator that is not serving (`takes` in its row is False) gets groups only if no other coordinator is serving.
  For example, the first coordinator of a database takes and opens its groups before it listens.
- Only a coordinator with a row takes groups, and only the owner of a group hands it over. So a coordinator's list of
  its own groups is correct as long as the coordinator has its row.
- An SQLite file has one coordinator, whose lease never expires (`coordinator_api/store/opening.py`).

    decisions          defines the actions, and chooses the free groups to take and a group to move for balance
    lease_holder       implements the rules: the expiry of this and of other leases, and the actions after a poll
    owned_groups       opens groups after they were taken, and closes groups before they are handed over
    coordinator_lease  runs the renewal loop, and looks up owners for HTTP calls

The functions and classes of `decisions` and `lease_holder` do no I/O. The file `coordinator_api/store/lease_rows.py`
defines the rows and the database operations.

The idea comes from the leader election in the clients of etcd and Kubernetes. These clients do not compare the clocks
of machines either.
"""
