"""The store's schema, version by version (Alembic). Run by `assignor migrate` and by the start of `assignor serve`."""
