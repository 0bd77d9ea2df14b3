"""For calls to services on loopback that speak no TLS: they need none of the authorities that a client would load."""

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""As `verify` of httpx. It trusts nobody. To load the authorities takes as long as dozens of calls."""
