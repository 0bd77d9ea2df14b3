"""The Spark session (`session`), and jobs of chunks that run on Spark or in processes of one machine (`batch`)."""
