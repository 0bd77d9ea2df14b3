"""One instance of an application, and several of them where the application is written.

`streams_instance`: `StreamsInstance`, with its threads; `instance_resources`: what its threads share; `instance_view`:
what it shows to its query server. `local_run`: `LocalRun`, which starts instances and a coordinator, and waits until
they have caught up; `coordinator_process`: that coordinator, a process of its own.
"""
