"""TLS certificates of the consoles of masters and slaves."""
