"""Worker processes for long computations, which would block the event loop of the serving process by the interpreter
lock.

worker_pool      runs jobs for the event loop; the workers of one service
worker_process   the fork server that workers are forked from, and the main function of a worker
"""
