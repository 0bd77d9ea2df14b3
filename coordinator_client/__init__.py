"""Code for programs that call a coordinator: addresses, tokens, TLS, and the HTTP client."""
