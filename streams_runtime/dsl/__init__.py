"""The typed DSL: streams, tables, groups, windows and joins, as in Kafka Streams.

An application calls the methods of a `StreamsBuilder`. `StreamsBuilder.build` returns the `Topology` that an
`Application` runs. Source: `kstream` (DSL).
"""
