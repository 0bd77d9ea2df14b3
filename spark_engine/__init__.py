"""The package `session` starts Spark. The package `batch` runs work in chunks, on Spark or in processes of one
machine.
"""
