"""The calculator as an HTTP service."""
