"""Which of several coordinators owns a group, and until when it may answer for it. Pure: the caller brings time.

    beat:    renewals + 1 in the row of this coordinator, and in the same transaction an `OwnershipView` of rows
    a beat that succeeded:  this coordinator may answer until `valid_ms` after it SENT that beat
    a row that does not change for as long, while it is looked at:  its coordinator is over; its row is deleted
    a group whose owner has no row:  free; one coordinator takes it, by a plan that all make alike, with epoch + 1

What its caller does, over and over:

    enter a row under a new id; incumbent.entered(id, url, now)
    at incumbent.next_beat_ms(now):  note when, send the beat; a beat that fails is followed by the next one
    incumbent.beaten(sent, now, view) -> actions, carried out one after the other before the next beat is sent:
        Lose         drop the group: nothing more is answered, its timers end
        ReadAgain    read every own group from the store before its next event; all sessions begin in full
        EndCoordinator   store.end
        Take         store.take; if it says yes: incumbent.taken, load the group, handle `Recovered`
        HandOver     close the group, store.hand_over; if it says yes: incumbent.given
        Enter        the row was deleted; all groups are lost: from the beginning, under another id
      An action that fails, or of which nobody knows, needs nothing: the next view tells.
    each answer, at the moment in which it is computed:  whereabouts(group) is Here, and may_answer(now)
    no event of a group and no timer of it is handled while may_answer(now) says no: who could not be heard is not late

Rules:
- No clock of the database is compared with another, nor the clocks of two machines. A coordinator counts how long it
  has seen a row unchanged, on its own clock, from the moment at which the reading ARRIVED. The owner counts from the
  moment at which it SENT the beat, which is earlier. So the owner has stopped answering before another may own.
- After an outage of the database nobody has looked, so nobody is over: a gap between two readings counts little.
- Each write of a group names the epoch in which its writer owns it. A former owner's write is refused.
- A coordinator whose row is gone has lost all that it had. It enters again under another id.
- A coordinator is given groups only while it serves: not before it listens, and not once it stops. Its row says so.
- Only who has a row takes, and only its owner gives a group away. So what an owner knows of its own groups is true as
  long as it has its row, whatever other coordinators do.

    values           what rows say, and what is to be done
    ownership_store  what is asked of the database
    lease            until when this coordinator may answer
    observation      which of the others are over
    spreading        who takes what is free, and what moves to whom
    incumbent        the three of them together: what follows a beat

Source of the idea: the records of leader election in etcd's and Kubernetes' clients, which trust no clock either.
"""
