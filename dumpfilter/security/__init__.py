"""TLS certificates of the servers that the product starts."""
