"""The parts of a program that calls a coordinator: addresses, tokens, TLS, and the HTTP client."""
