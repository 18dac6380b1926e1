"""Rows as Spark hands them over: packed, dealt to slots, sampled and sorted."""
