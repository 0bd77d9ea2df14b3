"""Reads a client's settings from a properties file, and converts them to the arguments of a connection.

`client_settings` checks all settings and parses logins. `properties_file` reads Java's file format. `tls` makes the TLS
context.
"""
