"""Processes beside the serving one, for work that would hold its interpreter lock: one thread cannot wait for another.

worker_pool      jobs in, results out, on the event loop; the workers of one service
worker_process   the process that workers are forked from, and the body of a worker
"""
