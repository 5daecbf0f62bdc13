"""The two threads of a channel. The I/O thread writes received events to the relay log. The SQL thread applies them."""
