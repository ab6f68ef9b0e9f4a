"""What goes over the wire: requests, responses and the events of streams, by subject."""
