"""One module for each file format; a new one is known by being here."""
