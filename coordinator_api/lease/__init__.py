"""The lease: which of several coordinators leads a group, and until when it may answer for it.

Each coordinator of a database has a row there, which it renews. The caller of the rules brings the time:

    poll:   renewals + 1 in the row of this coordinator, and in the same transaction a `LeaseView` of all rows
    a renewal that succeeded:   this coordinator may answer until `valid_ms` after it SENT the poll
    a row of another that does not change for as long, while it is observed:   its lease has expired; delete the row
    a group whose owner has no row:   free; one coordinator takes it, by a plan that all compute alike, with a new epoch

What `CoordinatorLease` does again and again:

    enter a row under a new id; holder.entered(id, url, now)
    at holder.next_poll_ms(now):  note when, send the poll; a poll that fails is followed by the next one
    holder.polled(sent, now, view, movable) -> actions, carried out one after the other before the next poll:
        Lose         drop the group: nothing more is answered, its timers end
        ReadAgain    read every own group from the store before its next event; all sessions begin in full
        EndCoordinator   store.end
        Take         store.take; if it succeeds: holder.own, load the group, handle `Recovered`
        HandOver     close the group, store.hand_over; if it succeeds: holder.given
      An action that fails, or whose answer is lost, needs nothing: the next view shows its result.
    after a poll that finds no row of its own, holder.coordinator_id is None: from the beginning, under another id
    each answer, at the moment in which it is computed:  whereabouts(group) is Here, and may_answer(now)
    no event of a group and no timer of it is handled while may_answer(now) is False: a member whose heartbeat
      could not be answered is not late

Rules:
- No clock of the database is compared with another, nor the clocks of two machines. A coordinator counts how long it
  has seen a row unchanged, on its own clock, from the moment at which the answer ARRIVED. The holder counts from the
  moment at which it SENT the renewal, which is earlier. So the holder has stopped answering before another may take.
- A lock of the database does not replace the expiry: a holder whose connection broke lives on, and answers.
- During an outage of the database no row is observed, so no lease expires: a gap between two polls counts little.
- Each write of a group names the epoch in which its writer owns it. A former owner's write is refused.
- A coordinator whose row is gone has lost all groups. It enters again under another id.
- A coordinator is given groups only while it serves: not before it listens, and not once it stops. Its row says so.
- Only a coordinator with a row takes groups, and only its owner hands a group over. So what a coordinator knows of its
  own groups is true as long as it has its row, whatever other coordinators do.
- An SQLite file has one coordinator, whose lease never expires (`coordinator_api/store/opening.py`).

    decisions          what is to be done, which free group is taken, and which group moves for balance. Pure
    lease_holder       the rules, pure as well: the expiry of the own lease, and of others; what follows a poll
    owned_groups       groups open after they were taken, and close before they are handed over
    coordinator_lease  the renewal loop, and the questions that calls ask

The rows and what may be asked of the database stand in `coordinator_api/store/lease_rows.py`.

Source of the idea: the records of leader election in etcd's and Kubernetes' clients, which trust no clock either.
"""
