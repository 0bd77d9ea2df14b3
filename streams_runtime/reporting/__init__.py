"""The reports of an instance: metrics to Prometheus, notices to the group, and records and windows that are lost."""
