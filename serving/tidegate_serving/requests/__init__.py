"""The door to the native data plane; nothing else imports it."""
