"""The console: a port that speaks MySQL's client protocol, over what a master or a slave can execute."""
