"""Which of several coordinators owns a group, and until when it may answer for it. Pure: the caller brings time.

    beat:    renewals + 1 in the row of this coordinator, and in the same transaction a `View` of all rows
    a beat that succeeded:  this coordinator may answer until `valid_ms` after it SENT that beat
    a row that does not change for as long, while it is looked at:  its coordinator is over; its row is deleted
    a group whose owner has no row:  free; one coordinator takes it, by a plan that all make alike, with epoch + 1

Rules:
- No clock of the database is compared with another, nor the clocks of two machines. A coordinator counts how long it has
  seen a row unchanged, on its own clock, from the moment at which the reading ARRIVED. The owner counts from the moment at
  which it SENT the beat, which is earlier. So the owner has stopped answering before another may own.
- After an outage of the database nobody has looked, so nobody is over: a gap between two readings counts little.
- Each write of a group names the epoch in which its writer owns it. A former owner's write is refused.
- A coordinator whose row is gone has lost all that it had. It enters again under another id.

    values         what rows say, and what is to be done
    lease          until when this coordinator may answer
    observation    which of the others are over
    spreading      who takes what is free, and what moves to whom
    incumbent      the three of them together: what follows a beat

Source of the idea: the records of leader election in etcd's and Kubernetes' clients, which trust no clock either.
"""
