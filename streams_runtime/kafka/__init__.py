"""What talks to Kafka: the one place, beside the log, that knows the client library."""
