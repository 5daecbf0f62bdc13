"""The two threads of a channel: the I/O thread fills the relay log, the applier reads and applies it."""
