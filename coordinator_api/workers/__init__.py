"""Runs long computations in worker processes. In the serving process, the computations would hold Python's interpreter
lock, and so block the event loop.

- `worker_pool` runs jobs for the event loop, and has the pools of one service.
- `worker_process` has the fork server, which forks the workers, and the main function of a worker.
"""
