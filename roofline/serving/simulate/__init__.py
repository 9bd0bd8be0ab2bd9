"""Requests in, a server that steps through them, and when each of them was served."""
