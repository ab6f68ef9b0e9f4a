"""What developers run on the product: fuzzing, mutants, attacks, a soak, counts of errors."""
