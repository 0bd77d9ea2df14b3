"""What an instance reports: metrics to Prometheus, notices to the group, and records and windows that are lost."""
