"""The log on Kafka: `kafka_log.KafkaLog`. This file imports no module, so that `log_settings` works without Kafka's
client.
"""
