"""The leader of Kafka Streams groups as a durable HTTP service.

commands, server    the program: `assignor serve`, signals, the socket
app, middleware     one ASGI application: gate, body limit, routes, problems
routes/, schemas    the calls, one file for each noun
coordinator         all groups: opened from the store, found, declared, deleted
events              one group: event -> group/ -> one transaction -> answer, timers, rounds
group/              what a group is and does: a pure state machine
round_runner        one round through `assignor`, and its recording
store/              SQLAlchemy, Alembic, the lease; nobody else knows them
"""
