"""Runs made of entity vectors that were learned elsewhere."""
