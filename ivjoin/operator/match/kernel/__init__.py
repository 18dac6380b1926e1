"""Build what the kernels of a push read and write: tables of the plan, registers, scratch, row and key stores."""
