"""Request, response and event models of the API, by subject."""
