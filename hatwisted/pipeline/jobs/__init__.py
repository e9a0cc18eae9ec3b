"""What is done with the tables of a log: plain functions with typed arguments that return results."""
