"""One answer for each left row of two tables: its pick among the right rows, found slice by slice."""
