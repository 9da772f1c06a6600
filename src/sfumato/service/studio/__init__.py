"""The studio: web pages of the service, rendered on the server from what `Office` gives."""
