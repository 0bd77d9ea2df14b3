"""The lease: it decides which of several coordinators leads a group, and how long this coordinator may answer for it.

Each coordinator has a row in the database, and renews the row. The functions get the time as an argument:

    poll:   add 1 to `renewals` in the row of this coordinator (not after late answers), and read a `LeaseView` of all
            rows in the same transaction
    a renewal that succeeded:   this coordinator may answer until `valid_ms` after it SENT the poll
    a row of another that stays unchanged for a little longer than `valid_ms` while it is observed:   its lease has
            expired; delete the row, on condition that `renewals` is still the observed number
    a group whose owner has no row:   free; one coordinator takes it with a new epoch, by a plan that all compute alike

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
- The clocks of two machines, the database's machine included, are never compared. A coordinator counts how long it has
  seen a row unchanged, on its own clock, from the moment at which the answer ARRIVED. The holder counts from the moment
  at which it SENT the renewal, which is earlier. So a holder stops answering before another coordinator may take its
  groups.
- A lock of the database does not replace the expiry: a holder whose connection broke keeps running, and would answer.
- During an outage of the database no row is observed, so no lease may expire: only a few renewal intervals of a long
  gap between two polls count.
- Each write of a group names the epoch in which the writer owns the group. A former owner's write is refused.
- A coordinator whose row was deleted has lost all groups. A coordinator whose row was deleted enters again under
  another id.
- A coordinator that does not serve yet or any more (`takes` in its row) gets groups only if no other coordinator
  serves: a first coordinator opens its groups before it listens.
- Only a coordinator with a row takes groups, and only the owner of a group hands it over. So a coordinator's list of
  its own groups is correct as long as it has its row, whatever other coordinators do.
- An SQLite file has one coordinator, whose lease never expires (`coordinator_api/store/opening.py`).

    decisions          the actions; the choice of the free groups to take, and of a group to move for balance. Pure
    lease_holder       the rules, pure as well: the expiry of this and of other leases; the actions after a poll
    owned_groups       groups open after they were taken, and close before they are handed over
    coordinator_lease  the renewal loop, and the lookups for HTTP calls

The rows and the database operations stand in `coordinator_api/store/lease_rows.py`.

Source of the idea: the records of leader election in etcd's and Kubernetes' clients, which compare no clocks either.
"""
