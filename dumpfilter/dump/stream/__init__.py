"""The gRPC messages of the stream between master and slave, as far as both sides must read them in the same way."""
