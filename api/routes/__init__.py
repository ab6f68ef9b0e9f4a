"""The endpoints, a file for each kind. Each has a function that makes its router."""
