"""One instance of an application.

`streams_instance`: `StreamsInstance`, with its threads; `instance_resources`: what its threads share; `instance_view`:
what it shows to its query server.
"""
