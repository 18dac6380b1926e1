"""Run queries in SQL. Names are resolved to columns, each JOIN becomes a join, and the select list a projection."""
