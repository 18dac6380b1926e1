"""Rows as Spark passes them to Python: packed, dealt to cells, sampled and sorted."""
