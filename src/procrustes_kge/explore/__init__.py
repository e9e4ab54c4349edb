"""What one asks of a trained model: questions, evidence, probabilities, new entities; data, no drawing."""
