"""The group protocol as a pure state machine: an event and the time in; records, an answer, effects and a timer out.

`group.Group` is the one door; its docstring shows the loop and lists the files. Nothing here knows a clock, a store,
HTTP or threads. Source: Kafka's classic group coordinator; each file names the part it answers to.
"""
