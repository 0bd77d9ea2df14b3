"""Each file is one version of the schema; a released file is never changed."""
