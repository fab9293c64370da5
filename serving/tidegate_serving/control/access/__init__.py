"""Who may do what on the control port: TLS, tokens and client certificates, roles, and the models that they are for.

Each call is decided here, by one table, before anything is done; files change while the engine runs.
"""
