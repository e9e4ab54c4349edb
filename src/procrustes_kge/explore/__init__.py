"""What one asks of a trained model: questions, evidence, probabilities, new entities, what relations are."""
