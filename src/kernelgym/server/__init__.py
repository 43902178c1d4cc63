"""The gym's HTTP server: FastAPI in front of the broker."""
