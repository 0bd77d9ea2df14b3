"""One instance of an application.

`streams_instance`: `StreamsInstance`, with its threads; `instance_resources`: the resources that its threads share;
`instance_view`: the view of the instance for its query server.
"""
