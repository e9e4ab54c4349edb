"""Reading graphs from names, files, frames and arrays; triples of ids, and the answers that are already known."""
