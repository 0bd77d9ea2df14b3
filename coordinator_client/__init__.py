"""The parts of a coordinator's caller: addresses, tokens, TLS, and the HTTP client."""
