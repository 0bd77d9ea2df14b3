"""The schema of the coordinator's database, version by version (Alembic). `assignor migrate` runs the versions that the
database lacks, and so does `assignor serve` at its start.
"""
