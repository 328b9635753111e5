"""L2: the operators, a file per family: jax.Array -> jax.Array."""
