"""What a caller of a coordinator needs: addresses, tokens, TLS, and the HTTP client."""
