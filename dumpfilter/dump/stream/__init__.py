"""The parts of the gRPC messages between master and slave that both sides must read and write alike."""
