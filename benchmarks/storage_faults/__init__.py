"""Every way in which a coordinator's store fails, on a real coordinator with members: what is answered, what survives,
and how long others wait.

    faults      begins and ends each fault, from outside of the coordinator
    group       members of two groups that send heartbeats, and callers that change and read; all calls are noted
    measuring   one fault from a healthy service to the next start on what is left
    running     all of them, as tables: `python -m benchmarks storage-faults`
"""
