"""The console of a master or slave: a port that speaks MySQL's client protocol."""
