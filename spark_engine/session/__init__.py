"""The Spark session. `spark_session` starts and stops it, `spark_installation` chooses Spark and Java.

`spark_job` runs a job beside its caller, `shipped_code` sends code along.
"""
