"""The schema of the coordinator's database, version by version (Alembic). `assignor migrate` and the start of `assignor
serve` run the missing versions.
"""
