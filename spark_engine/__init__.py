"""The Spark session, and chunks of work on Spark or on processes of one machine."""
