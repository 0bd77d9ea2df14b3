"""The schema of the coordinator's database, version by version (Alembic). `assignor migrate` applies the versions that
the database lacks. `assignor serve` also applies missing versions when it starts.
"""
