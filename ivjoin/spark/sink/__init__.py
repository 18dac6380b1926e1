"""The sink of ``write_stream``: files that contain each row once."""
