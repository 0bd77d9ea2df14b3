"""The log on Kafka: `log.KafkaLog`. Nothing is imported here, so that its settings can be known without the client."""
