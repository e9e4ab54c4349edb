"""From a name, a file, a frame or an array to triples of ids, and the answers that are already known."""
