"""A client's settings, from a properties file to the arguments of a connection.

`client_settings` checks all of them; `properties_file` reads Java's format, `tls` and `sasl` build the secured part.
"""
