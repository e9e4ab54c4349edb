"""The triples of a graph, arranged once for the products that training makes of them."""
