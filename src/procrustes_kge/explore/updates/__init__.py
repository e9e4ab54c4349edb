"""New entities, relations and triples, placed without training again."""
