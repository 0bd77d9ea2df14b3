"""One instance of an application. `streams_instance` has the instance with its threads. `instance_resources` has the
resources that the threads share. `instance_view` has the data that the query server of the instance shows.
"""
