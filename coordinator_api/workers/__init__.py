"""Processes beside the serving one, for work that would hold its interpreter lock: one thread cannot wait for another.

worker_pool      jobs in, results out, on the event loop    fork_server       the process that the workers are
forked_workers   starts and ends workers for the pools                        forked from, which has nothing to do
worker_process   the body of a worker
"""
