"""The start, the settings and the end of a Spark session. `spark_session` starts and stops a Spark session.
`spark_installation` chooses Spark and Java.

`spark_job` runs a job in a separate thread. `shipped_code` sends code to executors.
"""
