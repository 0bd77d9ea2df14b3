"""One file is one version; a released one is never changed."""
