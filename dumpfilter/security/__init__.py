"""TLS certificates for the gRPC server and the consoles of masters and slaves."""
