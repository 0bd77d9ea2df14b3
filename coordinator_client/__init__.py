"""What a caller of a coordinator needs besides an HTTP client: addresses, calls, tokens, TLS."""
