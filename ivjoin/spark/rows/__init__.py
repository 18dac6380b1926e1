"""Pack rows for Spark, assign them to cells, sample them and sort them."""
