"""The steps of a join of many inputs: which two it joins in each, and what the conditions imply for them."""
