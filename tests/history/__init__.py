"""Real traffic with faults, and a model that says whether what the clients saw is possible.

    python -m tests.history run --minutes 30 --seed 7 --out build/history/7
    python -m tests.history judge build/history/7

`run` starts a real coordinator on SQLite, real processes of members on an embedded log, and operators who pull levers.
Everybody writes down what he asked, what he was answered, and from when to when the call lasted; the stream threads
write down which tasks they have. Faults come from the seed. `judge` reads a run's directory again, at any time, also
with a newer model.

=======================  ==========================================================================
`calls.py`               a history as data: calls, tasks, faults; reads a run's directory
`recorder.py`            writes it, one line a call: a real `CoordinatorClient` and a `ThreadListener`
`linearizability.py`     whether some order of overlapping calls explains all their answers
`registers.py`           what is promised to be linearizable: definition, generation, levers
`placement.py`           who may have which task: assignments, owners, members that are heard
`model.py`               all promises by name
`judge.py`               the report of a run
`word_counts.py`         the application, its input, and its exact counts
`member.py`              a process of members
`lever_operator.py`      an operator
`proxies.py`             connections that break, fall silent, lose answers and delay them
`spark_members.py`       a group on Spark executors
`faults.py`              faults, drawn from the seed, that happen at their time
`fault_kinds.py`         what happens to whom
`running.py`             the parts of a run at work
`traffic.py`             the run: starts everything, and ends it
=======================  ==========================================================================

In the spirit of the robustness tests of etcd and of Porcupine.
"""
