"""The log on Kafka: `kafka_log.KafkaLog`. Imports nothing, so that `log_settings` works without Kafka's client."""
