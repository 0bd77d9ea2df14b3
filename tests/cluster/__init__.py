"""Several real coordinators on a real PostgreSQL pair, hundreds of real members, and faults of every kind.

    python -m tests.cluster --faults 200 --seed 7 --coordinators 3 --members 300
    python -m tests.cluster rolling --members 1000

`assignor serve` runs as processes, all with one `database.url` that names both servers. Members of several groups speak
the real HTTP protocol and know all coordinators; one more group counts words exactly once on Spark executors. Faults of
each kind happen equally often, one after the other, in an order that the seed decides; each is let settle.

=====================  ==============================================================================================
`cluster.py`           the coordinators, the database and the groups, and what it means that they have settled
`word_count.py`        the group on Spark, from `tests.history`, whose judge judges it
`fault_kinds.py`       what happens to whom, in which order
`report.py`            what is judged, and the table at the end
`running.py`           the run
`rolling_restart.py`   all coordinators restarted, one after the other, under members that only beat
=====================  ==============================================================================================

What is judged: no living member is evicted, no answer is taken back (generations, assignments, memberships), no task is
owned twice, by the generations that members had and by the log, whose counts are exact. How long a group had no service
is told, and judged by nobody, because it depends on the machine.
"""
