"""The Spark session. `spark_session` starts and stops a Spark session, `spark_installation` chooses Spark and Java.

`spark_job` runs a job in a thread of its own, `shipped_code` sends code to executors.
"""
