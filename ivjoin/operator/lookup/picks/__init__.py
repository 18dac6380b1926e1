"""Pick one right row for each left row: find the best row, when it is final, and rows that cannot be best."""
