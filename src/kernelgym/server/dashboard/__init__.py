"""The status page: rendered on the server, read-only, no scripts."""
