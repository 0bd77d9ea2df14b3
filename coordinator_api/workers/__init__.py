"""Worker processes, for work that would hold the interpreter lock of the serving process and block its event loop.

worker_pool      runs jobs for the event loop; the workers of one service
worker_process   the fork server that workers are forked from, and the main function of a worker
"""
