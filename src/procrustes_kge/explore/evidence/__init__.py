"""Which training triples speak for an answer, and how much."""
