"""The stream that a real replica reads: stand-ins for dropped transactions, packets, and events that no file has."""
