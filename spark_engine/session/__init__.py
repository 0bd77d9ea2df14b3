"""The Spark session. `spark_session` starts and stops it, `java_home` finds a Java, `shipped_code` sends code along."""
