"""The log on Kafka: `kafka_log.KafkaLog`. Nothing is imported here: its settings can be known without the client."""
