"""L1: what an operator is. Schemas, declarations and the rules that derive everything else."""
