"""A client's settings, from a properties file to the arguments of a connection.

`client_settings` checks all of them and reads logins; `properties_file` reads Java's format, `tls` its TLS context.
"""
