"""The sink of ``write_stream``: files that hold each row once."""
