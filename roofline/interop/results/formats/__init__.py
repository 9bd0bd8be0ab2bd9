"""File formats, a tool a module; a new one is known by being here."""
